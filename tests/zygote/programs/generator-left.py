# SPDX-License-Identifier: Apache-2.0
def g():
    try:
        yield 1
    finally:
        print("generator closed")

x = g()
next(x)
print("end")
