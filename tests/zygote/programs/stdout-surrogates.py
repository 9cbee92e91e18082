# SPDX-License-Identifier: Apache-2.0
import sys

print(sys.stdout.errors, ascii("\udcff"))
try:
    print("\udcff")
except UnicodeEncodeError as e:
    print(e)
