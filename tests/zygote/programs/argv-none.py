# SPDX-License-Identifier: Apache-2.0
import sys

print(sys.argv, sys.orig_argv[1:])
