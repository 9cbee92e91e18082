# SPDX-License-Identifier: Apache-2.0
try:
    raise SystemExit(6)
finally:
    print("finally")
