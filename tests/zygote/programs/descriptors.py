# SPDX-License-Identifier: Apache-2.0
import os

print(sorted(os.listdir("/proc/self/fd"), key=int))
print(os.open("/dev/null", os.O_RDONLY))
for fd in 0, 1, 2:
    print(fd, os.get_inheritable(fd), os.get_blocking(fd))
