# SPDX-License-Identifier: Apache-2.0
import os

f = open("/tmp/o2", "w")
f.write("from parent")
pid = os.fork()
if pid == 0:
    f.close()
    os._exit(0)
os.waitpid(pid, 0)
f.close()
print(open("/tmp/o2").read())
