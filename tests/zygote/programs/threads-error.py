# SPDX-License-Identifier: Apache-2.0
import threading

def work():
    raise ValueError("in a thread")

t = threading.Thread(target=work, name="bad")
t.start()
t.join()
