# SPDX-License-Identifier: Apache-2.0
import sys

f = sys._getframe()
print(f.f_back, f.f_code.co_name, f.f_code.co_filename, f.f_lineno, f.f_builtins is __builtins__.__dict__)
