# args: a b --flag=1 -x ü
# SPDX-License-Identifier: Apache-2.0
import sys

print(sys.argv, len(sys.argv))
print(sys.orig_argv)
