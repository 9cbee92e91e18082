# SPDX-License-Identifier: Apache-2.0
import abc
import collections.abc

class A(abc.ABC):
    @abc.abstractmethod
    def f(self): ...

try:
    A()
except TypeError as e:
    print(e)

class S(collections.abc.Sized):
    def __len__(self):
        return 3

print(len(S()), isinstance([], collections.abc.Sized))
