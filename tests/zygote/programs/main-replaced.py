# SPDX-License-Identifier: Apache-2.0
import sys, types

sys.modules["__main__"] = types.ModuleType("__main__")
print("end")
