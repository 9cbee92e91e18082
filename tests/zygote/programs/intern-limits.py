# SPDX-License-Identifier: Apache-2.0
import sys

print(sys.intern("abc") is sys.intern("abc"), sys.get_int_max_str_digits(), sys.maxsize, sys.float_info.dig)
try:
    str(10**5000)
except ValueError as e:
    print(e)
