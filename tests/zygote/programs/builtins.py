# SPDX-License-Identifier: Apache-2.0
import builtins

print("\n".join(sorted(dir(builtins))))
