# mask: addresses
# SPDX-License-Identifier: Apache-2.0
import faulthandler, sys

print(faulthandler.is_enabled())
faulthandler.dump_traceback(sys.stdout.fileno() and 2)
