# SPDX-License-Identifier: Apache-2.0
import sys

print(sys.flags, sys.warnoptions, sys._xoptions, sys.dont_write_bytecode)
