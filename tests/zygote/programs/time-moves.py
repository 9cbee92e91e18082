# SPDX-License-Identifier: Apache-2.0
import time

a = time.monotonic()
time.sleep(0.01)
print(time.monotonic() > a, time.process_time() > 0, time.thread_time() >= 0, time.time() > 1.6e9)
