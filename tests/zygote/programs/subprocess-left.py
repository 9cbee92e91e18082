# SPDX-License-Identifier: Apache-2.0
import subprocess

p = subprocess.Popen(["sleep", "100"])
print("end")
