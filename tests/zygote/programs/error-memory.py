# SPDX-License-Identifier: Apache-2.0
try:
    x = "x" * (1 << 62)
except MemoryError as e:
    print(repr(e))
