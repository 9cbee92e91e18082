# SPDX-License-Identifier: Apache-2.0
open("/app/statistics.py", "w").write("shadowed = True\n")
import statistics

print(statistics.__file__)
