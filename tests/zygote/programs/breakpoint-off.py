# env: IGNORED=1
# SPDX-License-Identifier: Apache-2.0
import sys

sys.breakpointhook = lambda: print("hook")
breakpoint()
