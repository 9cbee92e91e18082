# SPDX-License-Identifier: Apache-2.0
class L(list):
    def __del__(self):
        print("del list", len(self))

x = L([1, 2])
