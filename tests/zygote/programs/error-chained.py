# SPDX-License-Identifier: Apache-2.0
try:
    1 / 0
except ZeroDivisionError as e:
    raise ValueError("while handling") from e
