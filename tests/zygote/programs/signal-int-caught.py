# signal: 2
# SPDX-License-Identifier: Apache-2.0
import os, time

try:
    os.write(1, b"up\n")
    time.sleep(100)
except KeyboardInterrupt:
    print("interrupted")
