# env: HELLO=world
# SPDX-License-Identifier: Apache-2.0
import subprocess

print(subprocess.run(["printenv"], capture_output=True, text=True).stdout)
