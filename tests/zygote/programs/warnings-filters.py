# SPDX-License-Identifier: Apache-2.0
import warnings

print([(f[0], f[2].__name__, f[3]) for f in warnings.filters])
