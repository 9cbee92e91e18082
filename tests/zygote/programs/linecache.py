# SPDX-License-Identifier: Apache-2.0
import linecache

print(repr(linecache.getline(__file__, 2)), sorted(linecache.cache))
