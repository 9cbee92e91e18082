# SPDX-License-Identifier: Apache-2.0
import os

os.kill(os.getpid(), 9)
