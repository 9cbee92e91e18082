# SPDX-License-Identifier: Apache-2.0
from collections import namedtuple

P = namedtuple("P", "x y")
print(P(1, 2), P.__module__)
