"""A property is computed once, and torch's compiler traces it."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from paribus.model.memoised_property import memoised_property


@dataclass(frozen=True)
class Squares:
    values: Tensor
    calls: list[int]

    @memoised_property
    def total(self) -> Tensor:
        """The sum of squares."""
        self.calls.append(1)
        return (self.values * self.values).sum()


def test_a_value_is_computed_once_for_each_object() -> None:
    one, other = (Squares(torch.tensor([1.0, 2.0, 5.0]), []) for _ in range(2))
    assert one.total.item() == 30
    assert one.total is one.total
    assert one.calls == [1]
    assert other.total is not one.total


def test_the_class_has_the_property_with_its_description() -> None:
    assert isinstance(Squares.total, memoised_property)
    assert Squares.total.__doc__ == "The sum of squares."


def test_a_fault_is_raised_again_at_the_next_look() -> None:
    class Faulty:
        @memoised_property
        def value(self) -> int:
            raise ValueError("not yet")

    faulty = Faulty()
    for _ in range(2):
        with pytest.raises(ValueError, match="not yet"):
            faulty.value  # noqa: B018


def test_the_compiler_traces_it_in_one_piece() -> None:
    n_pieces = 0

    def backend(graph: Any, _: list[Any]) -> Any:
        nonlocal n_pieces
        n_pieces += 1
        return graph.forward

    def forward(values: Tensor) -> Tensor:
        squares = Squares(values, [])
        return squares.total + squares.total

    torch.compiler.reset()
    compiled = torch.compile(forward, backend=backend, fullgraph=True)
    assert compiled(torch.tensor([1.0, 2.0])).item() == 10
    assert n_pieces == 1
