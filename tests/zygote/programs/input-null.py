# SPDX-License-Identifier: Apache-2.0
try:
    input("prompt ")
except EOFError as e:
    print(repr(e))
