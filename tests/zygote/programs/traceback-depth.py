# SPDX-License-Identifier: Apache-2.0
import sys, traceback

def f():
    frame = sys._getframe()
    names = []
    while frame:
        names.append((frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return names

print(f())
