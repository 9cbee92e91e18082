# SPDX-License-Identifier: Apache-2.0
import multiprocessing as mp
import sys

if __name__ == "__main__":
    p = mp.get_context("fork").Process(target=sys.exit, args=(3,))
    p.start()
    p.join()
    print(p.exitcode)
