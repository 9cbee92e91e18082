# SPDX-License-Identifier: Apache-2.0
import sys

def hook(kind, value, tb):
    print("hook:", kind.__name__, value, tb.tb_lineno, tb.tb_next)

sys.excepthook = hook
1 / 0
