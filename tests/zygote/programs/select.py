# SPDX-License-Identifier: Apache-2.0
import os, select

r, w = os.pipe()
os.write(w, b"x")
print(select.select([r], [], [], 1)[0] == [r], r, w)
