# SPDX-License-Identifier: Apache-2.0
class M(type):
    def __new__(mcs, name, bases, ns):
        print("making", name)
        return super().__new__(mcs, name, bases, ns)

class X(metaclass=M):
    pass

print(type(X).__name__)
