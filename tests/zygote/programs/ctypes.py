# SPDX-License-Identifier: Apache-2.0
import ctypes

libc = ctypes.CDLL(None)
print(libc.abs(-5))
libc.printf(b"from C, buffered\n")
