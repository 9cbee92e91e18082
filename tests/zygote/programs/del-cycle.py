# SPDX-License-Identifier: Apache-2.0
class C:
    def __del__(self):
        print("del cycle")

a = C()
b = C()
a.other = b
b.other = a
print("end")
