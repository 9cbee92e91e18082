# env: FROM_C=level
# SPDX-License-Identifier: Apache-2.0
import os

os.system('echo "$FROM_C $PYTHONPATH"')
