# SPDX-License-Identifier: Apache-2.0
import gc, os

print(len(gc.get_referrers(os.path)) > 1, any(o is os.__dict__ for o in gc.get_objects()))
