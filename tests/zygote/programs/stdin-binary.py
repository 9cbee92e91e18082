# stdin: a\nb\x00c
# SPDX-License-Identifier: Apache-2.0
import sys

print(sys.stdin.buffer.read())
