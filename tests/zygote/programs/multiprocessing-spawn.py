# SPDX-License-Identifier: Apache-2.0
import multiprocessing as mp
import sys

def work(x):
    return x + 1, __name__, sys.argv, "__mp_main__" in sys.modules

if __name__ == "__main__":
    mp.set_start_method("spawn")
    with mp.Pool(1) as pool:
        print(pool.map(work, [1, 2]))
