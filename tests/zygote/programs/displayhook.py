# SPDX-License-Identifier: Apache-2.0
import sys

sys.displayhook(42)
print(_ if "_" in globals() else __builtins__._)
