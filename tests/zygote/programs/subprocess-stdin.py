# SPDX-License-Identifier: Apache-2.0
import subprocess

print(subprocess.run(["cat"], capture_output=True, text=True).stdout == "", subprocess.run(["wc", "-c"], input=b"abc", capture_output=True).stdout)
