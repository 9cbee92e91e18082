# SPDX-License-Identifier: Apache-2.0
import gc

class C:
    def __del__(self):
        print("collected")

c = C()
c.me = c
del c
print(gc.collect() > 0, gc.isenabled(), gc.get_threshold(), gc.get_freeze_count())
