# SPDX-License-Identifier: Apache-2.0
import subprocess, sys

if len(sys.argv) == 1:
    r = subprocess.run([sys.executable, __file__, "again"], capture_output=True, text=True)
    print(r.stdout, r.returncode)
else:
    print("second", sys.argv, __name__)
    raise SystemExit(2)
