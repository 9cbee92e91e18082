# SPDX-License-Identifier: Apache-2.0
def twice(f):
    def g(*a):
        f(*a)
        f(*a)

    return g

@twice
def hi(x):
    print("hi", x)

hi(1)
