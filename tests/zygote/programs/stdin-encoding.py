# stdin: grün 漢
# SPDX-License-Identifier: Apache-2.0
import sys

print(sys.stdin.encoding, sys.stdin.errors, sys.stdin.read())
