# SPDX-License-Identifier: Apache-2.0
import sys, threading

t = threading.Thread(target=lambda: sys.exit(3))
t.start()
t.join()
print("main goes on")
