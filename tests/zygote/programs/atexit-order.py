# SPDX-License-Identifier: Apache-2.0
import atexit

for i in range(3):
    atexit.register(print, "bye", i)
print("end")
