# SPDX-License-Identifier: Apache-2.0
import sys

def trace(frame, event, arg):
    print(event, frame.f_code.co_name, frame.f_lineno)
    return trace

def f():
    return 1

sys.settrace(trace)
f()
sys.settrace(None)
