# stdin: x
# SPDX-License-Identifier: Apache-2.0
import os, stat

print(stat.S_ISFIFO(os.fstat(0).st_mode), os.read(0, 10), os.read(0, 10))
