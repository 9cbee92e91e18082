# SPDX-License-Identifier: Apache-2.0
import sys

m = sys.modules["__main__"]
print(m.__name__, m.__dict__ is globals(), repr(m))
