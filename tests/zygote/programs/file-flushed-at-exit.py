# SPDX-License-Identifier: Apache-2.0
import subprocess, sys

code = "f = open('/tmp/o', 'w'); f.write('written')"
subprocess.run([sys.executable, "-c", code])
print(open("/tmp/o").read())
