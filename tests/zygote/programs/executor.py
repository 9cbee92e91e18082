# SPDX-License-Identifier: Apache-2.0
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(3) as p:
    print(list(p.map(lambda x: x * 2, range(5))))
