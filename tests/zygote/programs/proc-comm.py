# SPDX-License-Identifier: Apache-2.0
print(open("/proc/self/comm").read(), open("/proc/self/cmdline").read().split("\0"))
