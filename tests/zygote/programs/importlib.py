# SPDX-License-Identifier: Apache-2.0
import importlib, importlib.util

m = importlib.import_module("json.decoder")
print(m.__name__, importlib.util.find_spec("nothing_here"), importlib.util.find_spec("__main__") if False else "")
importlib.reload(m)
print(m.__spec__.name)
