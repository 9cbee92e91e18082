# SPDX-License-Identifier: Apache-2.0
import sys

print("readline" in sys.modules, "rlcompleter" in sys.modules, hasattr(sys, "ps1"), hasattr(sys, "__interactivehook__"))
