# SPDX-License-Identifier: Apache-2.0
import resource

print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 1000, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
