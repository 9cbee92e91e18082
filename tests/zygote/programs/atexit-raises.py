# mask: addresses
# SPDX-License-Identifier: Apache-2.0
import atexit

@atexit.register
def bad():
    raise ValueError("in atexit")

atexit.register(print, "first")
