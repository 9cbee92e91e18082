# SPDX-License-Identifier: Apache-2.0
def counter():
    n = 0

    def inc():
        nonlocal n
        n += 1
        return n

    return inc

c = counter()
print(c(), c(), c.__closure__[0].cell_contents)
