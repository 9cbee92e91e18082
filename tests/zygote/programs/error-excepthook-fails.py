# SPDX-License-Identifier: Apache-2.0
import sys

def hook(kind, value, tb):
    raise ValueError("in the hook")

sys.excepthook = hook
1 / 0
