# SPDX-License-Identifier: Apache-2.0
import atexit, gc, _weakref, sys

print(sys.modules["gc"] is gc, gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.garbage, gc.callbacks)
print(atexit.__name__, _weakref.getweakrefcount(gc))
