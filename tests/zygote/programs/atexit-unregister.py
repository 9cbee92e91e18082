# SPDX-License-Identifier: Apache-2.0
import atexit

atexit.register(print, "gone")
atexit.unregister(print)
