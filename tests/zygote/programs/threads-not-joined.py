# SPDX-License-Identifier: Apache-2.0
import threading, time

def work():
    time.sleep(0.05)
    print("thread done")

threading.Thread(target=work).start()
print("main done")
