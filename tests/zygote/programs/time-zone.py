# SPDX-License-Identifier: Apache-2.0
import os, time

print(time.tzname, time.timezone, time.daylight, time.strftime("%Z", time.localtime(0)))
os.environ["TZ"] = "Europe/Berlin"
time.tzset()
print(time.tzname, time.localtime(0).tm_hour)
