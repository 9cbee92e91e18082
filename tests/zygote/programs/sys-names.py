# SPDX-License-Identifier: Apache-2.0
import sys

print(sys.executable, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.platlibdir, sys.byteorder)
print(sys.getrecursionlimit(), sys.getswitchinterval(), sys.getdefaultencoding(), sys.getfilesystemencoding())
