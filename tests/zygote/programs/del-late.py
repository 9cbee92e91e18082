# SPDX-License-Identifier: Apache-2.0
class C:
    pass

C.__del__ = lambda self: print("del added later")
x = C()
