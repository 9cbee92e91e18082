# SPDX-License-Identifier: Apache-2.0
import warnings

def f():
    warnings.warn("careful", stacklevel=2)

f()
warnings.warn("old", DeprecationWarning)
