# SPDX-License-Identifier: Apache-2.0
import _thread, time

lock = _thread.allocate_lock()
lock.acquire()
_thread.start_new_thread(lock.release, ())
lock.acquire()
print("released")
