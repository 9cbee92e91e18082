# SPDX-License-Identifier: Apache-2.0
import sys

class C:
    def __del__(self):
        print("del", sys is not None, print is not None)

sys.keep = C()
