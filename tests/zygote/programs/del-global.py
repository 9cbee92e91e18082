# SPDX-License-Identifier: Apache-2.0
class C:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("del", self.name)

a = C("a")
b = C("b")
print("end")
