# SPDX-License-Identifier: Apache-2.0
import subprocess, sys

code = "import sys, os; print(sys.argv, sys.path[1:], sorted(sys.modules), os.environ.get('PYTHONPATH'))"
r = subprocess.run([sys.executable, "-c", code, "x"], capture_output=True, text=True)
print(r.stdout, r.stderr, r.returncode)
