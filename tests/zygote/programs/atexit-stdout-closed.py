# SPDX-License-Identifier: Apache-2.0
import sys

print("text")
sys.stdout.close()
