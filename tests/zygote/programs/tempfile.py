# SPDX-License-Identifier: Apache-2.0
import os, tempfile

with tempfile.NamedTemporaryFile("w+") as f:
    f.write("x")
    f.flush()
    print(os.path.dirname(f.name), os.path.getsize(f.name))
d = tempfile.TemporaryDirectory()
print(os.path.isdir(d.name))
