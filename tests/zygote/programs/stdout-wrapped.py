# SPDX-License-Identifier: Apache-2.0
import sys

class W:
    def write(self, s):
        sys.__stdout__.write(s.upper())

    def flush(self):
        sys.__stdout__.write("[flush]")

sys.stdout = W()
print("shout")
