# SPDX-License-Identifier: Apache-2.0
class Odd(Exception):
    def __str__(self):
        return "odd"

raise Odd(1, 2)
