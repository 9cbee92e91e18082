# SPDX-License-Identifier: Apache-2.0
import sys

try:
    1 / 0
finally:
    sys.exit(8)
