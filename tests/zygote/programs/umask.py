# SPDX-License-Identifier: Apache-2.0
import os

old = os.umask(0)
os.umask(old)
print(oct(old))
open("/tmp/f", "w").close()
os.mkdir("/tmp/d")
print(oct(os.stat("/tmp/f").st_mode), oct(os.stat("/tmp/d").st_mode))
