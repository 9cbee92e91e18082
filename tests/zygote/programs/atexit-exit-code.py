# mask: addresses
# SPDX-License-Identifier: Apache-2.0
import atexit, sys

atexit.register(lambda: sys.exit(3))
print("end")
