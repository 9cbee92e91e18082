# SPDX-License-Identifier: Apache-2.0
for i in range(20000):
    print(i, "x" * 50)
