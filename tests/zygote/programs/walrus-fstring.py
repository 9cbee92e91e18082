# SPDX-License-Identifier: Apache-2.0
if (n := len("abc")) > 2:
    print(f"{n=} {n!r:>5} {3.14159:.2f} {'nested ' + str(n)}")
