# signal: 2
# SPDX-License-Identifier: Apache-2.0
import os, sys, time

sys.tracebacklimit = 0  # where it is interrupted, nobody knows
os.write(1, b"up")
time.sleep(100)
