# SPDX-License-Identifier: Apache-2.0
import os, stat

st = os.fstat(0)
print(stat.S_ISCHR(st.st_mode), os.major(st.st_rdev), os.minor(st.st_rdev), os.readlink("/proc/self/fd/0"))
