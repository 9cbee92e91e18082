# SPDX-License-Identifier: Apache-2.0
import os, sys

open("/app/helper.py", "w").write("import sys\nvalue = 42\nprint('helper', __name__, __file__)\n")
import helper

print(helper.value, helper.__spec__.origin, os.path.exists("/app/__pycache__"))
