# SPDX-License-Identifier: Apache-2.0
import weakref

class C:
    pass

x = C()
weakref.finalize(x, print, "finalized")
print("end")
