# mask: addresses
# SPDX-License-Identifier: Apache-2.0
class C:
    def __del__(self):
        raise SystemExit(3)

x = C()
