# SPDX-License-Identifier: Apache-2.0
"""
>>> 1 + 1
2
>>> 1 + 1
3
"""
import doctest

print(doctest.testmod())
