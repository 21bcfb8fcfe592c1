"""A property that is computed once and takes no lock, so that torch's compiler can trace it.

`functools.cached_property` of Python 3.11 holds a lock while it computes. The compiler cannot trace
a lock, and cuts the forward pass in pieces there. Later versions of Python hold none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class memoised_property(Generic[Value]):
    """The value of a method, kept in the object's own dictionary under the method's name.

    Python looks there first, so the method is called once. Two threads that ask at the same time
    may both compute it; it has to be the same value.
    """

    def __init__(self, compute: Callable[[Any], Value]):
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> Self | Value:
        if instance is None:
            return self
        value = self.compute(instance)
        instance.__dict__[self.name] = value
        return value
