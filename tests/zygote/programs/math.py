# SPDX-License-Identifier: Apache-2.0
import math, fractions, decimal, statistics

print(math.pi, fractions.Fraction(1, 3), decimal.Decimal("0.1") + 1, statistics.mean([1, 2, 4]))
