# SPDX-License-Identifier: Apache-2.0
import os, sys

sys.stdout.write("one ")
os.write(1, b"two ")
sys.stdout.write("three\n")
sys.stderr.write("err\n")
os.write(1, b"four\n")
