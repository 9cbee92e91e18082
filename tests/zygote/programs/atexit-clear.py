# SPDX-License-Identifier: Apache-2.0
import atexit

atexit.register(print, "cleared")
atexit._clear()
print("end")
