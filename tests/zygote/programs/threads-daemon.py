# SPDX-License-Identifier: Apache-2.0
import threading, time

threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
print("main done")
