# SPDX-License-Identifier: Apache-2.0
class M(type):
    @property
    def __module__(cls):
        raise RuntimeError("no module")

class X(metaclass=M):
    def __del__(self):
        print("del behind a metaclass")

x = X()
