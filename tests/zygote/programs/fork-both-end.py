# SPDX-License-Identifier: Apache-2.0
import os

pid = os.fork()
if pid:
    print("child ended with", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
else:
    print("child")
