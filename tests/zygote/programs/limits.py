# SPDX-License-Identifier: Apache-2.0
import resource

for name in "NOFILE", "CORE", "FSIZE", "STACK", "NPROC", "DATA", "AS", "CPU", "MEMLOCK":
    print(name, resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
