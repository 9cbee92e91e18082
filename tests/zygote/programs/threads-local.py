# SPDX-License-Identifier: Apache-2.0
import threading

local = threading.local()
local.x = 1
t = threading.Thread(target=lambda: print(hasattr(local, "x")))
t.start()
t.join()
