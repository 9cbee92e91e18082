# SPDX-License-Identifier: Apache-2.0
import os, sys

fd = os.open("/dev/full", os.O_WRONLY)
os.dup2(fd, 1)
sys.stdout.write("lost")
