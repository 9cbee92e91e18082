# stdin: one\ntwo\nthree
# SPDX-License-Identifier: Apache-2.0
import sys

print(sys.stdin.seekable(), sys.stdin.buffer.raw.name)
print([line for line in sys.stdin])
