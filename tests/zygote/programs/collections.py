# SPDX-License-Identifier: Apache-2.0
from collections import Counter, OrderedDict, defaultdict, deque

print(Counter("abca"), OrderedDict(a=1), defaultdict(int, x=1), deque([1, 2], maxlen=2))
