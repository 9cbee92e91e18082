# SPDX-License-Identifier: Apache-2.0
import atexit, threading

atexit.register(print, "atexit")
threading._register_atexit(print, "threading atexit")
