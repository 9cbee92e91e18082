# SPDX-License-Identifier: Apache-2.0
import os

os.makedirs("/app/pkg/sub")
open("/app/pkg/__init__.py", "w").write("from .a import x\n")
open("/app/pkg/a.py", "w").write("x = 'relative'\n")
open("/app/pkg/sub/b.py", "w").write("y = 'namespace'\n")
import pkg
from pkg.sub import b

print(pkg.x, b.y, pkg.__path__)
