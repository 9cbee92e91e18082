# SPDX-License-Identifier: Apache-2.0
import mmap

m = mmap.mmap(-1, 4096)
m.write(b"abc")
print(m[:3], len(m))
