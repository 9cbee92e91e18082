# SPDX-License-Identifier: Apache-2.0
import gc

class C:
    def __del__(self):
        print("del frozen")

x = C()
gc.freeze()
print("end")
