# SPDX-License-Identifier: Apache-2.0
import contextlib

@contextlib.contextmanager
def c():
    try:
        yield
    finally:
        print("left")

x = c()
x.__enter__()
