# SPDX-License-Identifier: Apache-2.0
import sys

print("before")
sys.modules.pop("__main__")
