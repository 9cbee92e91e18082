# SPDX-License-Identifier: Apache-2.0
import sys

print("before")
b = sys.stdout.detach()
b.write(b"after\n")
