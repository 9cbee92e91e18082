# SPDX-License-Identifier: Apache-2.0
import io, sys

sys.stdout = io.StringIO()
print("hidden")
sys.stderr.write(sys.stdout.getvalue())
