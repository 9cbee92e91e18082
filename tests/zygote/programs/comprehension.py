# SPDX-License-Identifier: Apache-2.0
print([x * y for x in range(3) for y in range(3)], {k: v for k, v in zip("ab", (1, 2))}, {i % 3 for i in range(9)})
