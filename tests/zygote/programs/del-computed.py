# SPDX-License-Identifier: Apache-2.0
C = type("C", (), {"__de" + "l__": lambda self: print("computed del")})
x = C()
