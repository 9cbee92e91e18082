# SPDX-License-Identifier: Apache-2.0
from typing import Optional, get_type_hints

def f(x: Optional[int]) -> "str": ...

print(get_type_hints(f), __annotations__)
