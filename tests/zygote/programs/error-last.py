# SPDX-License-Identifier: Apache-2.0
import sys

def hook(kind, value, tb):
    print(sys.last_type, sys.last_value, sys.last_traceback is tb)

sys.excepthook = hook
1 / 0
