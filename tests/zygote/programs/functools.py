# SPDX-License-Identifier: Apache-2.0
import functools, itertools, operator

@functools.lru_cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

print(fib(30), fib.cache_info(), list(itertools.accumulate([1, 2, 3])), functools.reduce(operator.mul, [1, 2, 3]))
