# SPDX-License-Identifier: Apache-2.0
import sys

for s in sys.stdin, sys.stdout, sys.stderr:
    print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.newlines, s.isatty(), s.fileno())
    print(type(s).__name__, type(s.buffer).__name__, type(getattr(s.buffer, "raw", s.buffer)).__name__)
print(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__)
