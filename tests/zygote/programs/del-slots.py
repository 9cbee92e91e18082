# SPDX-License-Identifier: Apache-2.0
class C:
    __slots__ = ()

    def __del__(self):
        print("del slots")

x = C()
print("end")
