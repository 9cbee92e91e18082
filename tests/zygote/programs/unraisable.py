# mask: addresses
# SPDX-License-Identifier: Apache-2.0
class C:
    def __del__(self):
        raise ValueError("in del")

C()
print("end")
