# SPDX-License-Identifier: Apache-2.0
import subprocess

print(subprocess.run(["ls", "/proc/self/fd"], capture_output=True, text=True).stdout)
