# SPDX-License-Identifier: Apache-2.0
import random

random.seed(1)
print([random.randrange(100) for _ in range(5)], random.choice("abc"))
