# SPDX-License-Identifier: Apache-2.0
import sys

x = sys
del __file__, __name__
