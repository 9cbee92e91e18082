# SPDX-License-Identifier: Apache-2.0
import enum

class Color(enum.Enum):
    RED = 1
    GREEN = enum.auto()

print(list(Color), Color.RED, repr(Color(2)))
