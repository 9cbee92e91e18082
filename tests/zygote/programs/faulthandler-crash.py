# mask: addresses
# SPDX-License-Identifier: Apache-2.0
import ctypes, faulthandler

faulthandler.enable()
print("before", flush=True)
faulthandler._sigabrt()
