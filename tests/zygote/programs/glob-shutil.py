# SPDX-License-Identifier: Apache-2.0
import glob, os, shutil

os.makedirs("/tmp/g/h")
open("/tmp/g/h/f.py", "w").close()
shutil.copytree("/tmp/g", "/tmp/k")
print(sorted(glob.glob("/tmp/k/**", recursive=True)))
shutil.rmtree("/tmp/k")
print(os.path.exists("/tmp/k"))
