# SPDX-License-Identifier: Apache-2.0
import cProfile, io, pstats

p = cProfile.Profile()
p.runcall(sorted, [3, 1, 2])
s = io.StringIO()
pstats.Stats(p, stream=s).print_stats()
print("sorted" in s.getvalue())
