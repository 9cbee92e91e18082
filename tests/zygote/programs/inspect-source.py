# SPDX-License-Identifier: Apache-2.0
import inspect

def f(a, b=2, *c, d, **e):
    "Doc."
    return a

print(inspect.getsource(f), inspect.signature(f), inspect.getfile(f), inspect.getmodule(f).__name__)
print(inspect.stack()[0][1:4], len(inspect.stack()))
