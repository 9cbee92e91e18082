# SPDX-License-Identifier: Apache-2.0
import traceback

try:
    [].pop()
except IndexError:
    traceback.print_exc()
    print(traceback.format_exc())
    traceback.print_stack()
