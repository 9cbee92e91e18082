# SPDX-License-Identifier: Apache-2.0
import threading

threading.excepthook = lambda args: print("hook", args.exc_type.__name__, args.thread.name)
t = threading.Thread(target=lambda: 1 / 0, name="x")
t.start()
t.join()
