# SPDX-License-Identifier: Apache-2.0
import os, sys

sys.stdout.flush()
pid = os.fork()
if pid == 0:
    print("child")
    sys.exit(4)
print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
