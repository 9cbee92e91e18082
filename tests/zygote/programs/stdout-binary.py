# SPDX-License-Identifier: Apache-2.0
import sys

sys.stdout.buffer.write(bytes(range(256)))
