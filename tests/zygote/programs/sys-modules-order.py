# SPDX-License-Identifier: Apache-2.0
import sys

print("\n".join(m for m in sys.modules))
