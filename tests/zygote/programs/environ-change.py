# SPDX-License-Identifier: Apache-2.0
import os, subprocess

os.environ["NEW"] = "1"
del os.environ["HOME"]
print(subprocess.run(["sh", "-c", "echo $NEW ${HOME:-none}"], capture_output=True, text=True).stdout)
os.unsetenv("NEW")
print(subprocess.run(["sh", "-c", "echo ${NEW:-none}"], capture_output=True, text=True).stdout)
