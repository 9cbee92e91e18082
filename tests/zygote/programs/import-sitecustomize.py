# SPDX-License-Identifier: Apache-2.0
try:
    import sitecustomize
    print("there")
except ImportError as e:
    print(type(e).__name__, e)
