# SPDX-License-Identifier: Apache-2.0
import sys

print("\n".join(sorted(sys.modules)))
