# SPDX-License-Identifier: Apache-2.0
import sys

def trace(frame, event, arg):
    print(event, frame.f_code.co_name)

def f():
    pass

sys.settrace(trace)
f()
