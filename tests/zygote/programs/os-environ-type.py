# SPDX-License-Identifier: Apache-2.0
import os

print(type(os.environ).__name__, os.environ.encodekey("a"), len(os.environ) == len(os.environb), os.environ._data is os.environb._data)
os.environ.update(A="1")
print(os.environb[b"A"], os.environ.pop("A"), "A" in os.environ)
