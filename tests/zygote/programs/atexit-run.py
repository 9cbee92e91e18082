# SPDX-License-Identifier: Apache-2.0
import atexit

atexit.register(print, "once")
atexit._run_exitfuncs()
print("end")
