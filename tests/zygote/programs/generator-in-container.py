# SPDX-License-Identifier: Apache-2.0
def g():
    try:
        yield 1
    finally:
        print("closed in container")

keep = {"a": [g()]}
next(keep["a"][0])
