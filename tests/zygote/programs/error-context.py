# SPDX-License-Identifier: Apache-2.0
try:
    1 / 0
except ZeroDivisionError:
    undefined_name
