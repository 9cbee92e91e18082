# SPDX-License-Identifier: Apache-2.0
def what(x):
    match x:
        case {"a": [1, *rest]}:
            return rest
        case str() as s if s:
            return s.upper()
        case _:
            return None

print(what({"a": [1, 2, 3]}), what("x"), what(""))
