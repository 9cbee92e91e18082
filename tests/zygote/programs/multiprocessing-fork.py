# SPDX-License-Identifier: Apache-2.0
import multiprocessing as mp

def work(q, n):
    q.put(n * n)

if __name__ == "__main__":
    mp.set_start_method("fork")
    q = mp.SimpleQueue()
    ps = [mp.Process(target=work, args=(q, i)) for i in range(3)]
    [p.start() for p in ps]
    [p.join() for p in ps]
    print(sorted(q.get() for _ in ps), [p.exitcode for p in ps])
