# SPDX-License-Identifier: Apache-2.0
import sys

print("\n".join(sys.path))
