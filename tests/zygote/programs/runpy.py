# SPDX-License-Identifier: Apache-2.0
import runpy

open("/tmp/r.py", "w").write("print(__name__, __file__)\nx = 1\n")
print(sorted(k for k in runpy.run_path("/tmp/r.py", run_name="__main__") if not k.startswith("_")))
print(runpy.run_module("this_is_missing") if False else "")
