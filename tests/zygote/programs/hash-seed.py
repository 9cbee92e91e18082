# SPDX-License-Identifier: Apache-2.0
import sys

print(sys.flags.hash_randomization, sys.hash_info.algorithm, hash(1), hash(2.5), hash((1, 2)))
