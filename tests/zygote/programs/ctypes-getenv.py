# env: SEEN_BY_C=yes
# SPDX-License-Identifier: Apache-2.0
import ctypes

libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
print(libc.getenv(b"SEEN_BY_C"), libc.getenv(b"PYTHONPATH"), libc.getenv(b"NOT_THERE"))
