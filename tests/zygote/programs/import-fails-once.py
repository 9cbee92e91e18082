# SPDX-License-Identifier: Apache-2.0
import sys

try:
    import nothing_like_this
except ModuleNotFoundError as e:
    print(e, e.name, e.path)
print("nothing_like_this" in sys.modules)
