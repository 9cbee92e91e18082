# SPDX-License-Identifier: Apache-2.0
print(sorted(k for k in globals() if k.startswith("__")))
print(__name__, __file__, __doc__, __package__, __spec__, __builtins__.__name__, __annotations__)
print(type(__loader__).__name__, __loader__.name, __loader__.path, __cached__)
