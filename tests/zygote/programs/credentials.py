# SPDX-License-Identifier: Apache-2.0
import os

print(os.getuid(), os.geteuid(), os.getgid(), os.getgroups(), os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid())
