# SPDX-License-Identifier: Apache-2.0
import os

print(os.nice(0), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))
