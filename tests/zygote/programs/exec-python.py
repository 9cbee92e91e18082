# SPDX-License-Identifier: Apache-2.0
import os, sys

if len(sys.argv) < 2:
    os.execv(sys.executable, [sys.executable, __file__, "1"])
print(sys.argv, sorted(os.listdir("/proc/self/fd"), key=int))
