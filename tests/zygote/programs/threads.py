# SPDX-License-Identifier: Apache-2.0
import threading

def work(n):
    results[n] = n * n

results = {}
ts = [threading.Thread(target=work, args=(i,), name=f"w{i}") for i in range(5)]
[t.start() for t in ts]
[t.join() for t in ts]
print(sorted(results.items()), threading.main_thread().name, threading.active_count())
