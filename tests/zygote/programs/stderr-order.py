# SPDX-License-Identifier: Apache-2.0
import sys

print("1 out")
print("2 err", file=sys.stderr)
print("3 out")
