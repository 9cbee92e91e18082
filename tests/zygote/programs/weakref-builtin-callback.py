# mask: addresses
# SPDX-License-Identifier: Apache-2.0
import weakref

class C:
    pass

x = C()
r = weakref.ref(x, print)
