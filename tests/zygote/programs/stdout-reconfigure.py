# SPDX-License-Identifier: Apache-2.0
import sys

sys.stdout.reconfigure(encoding="latin-1", errors="replace")
print("ü 漢")
