"""One value that goes through a forward pass: how to compute, what to drop, who looks on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from torch import Tensor

from paribus.batch import BatchLayout
from paribus.masks import Rule
from paribus.model.cache import Keys
from paribus.model.dropout import DropoutKey, dropout
from paribus.model.kernels import KernelChoice
from paribus.model.linear import JoinedWeights, Linear, fused_linear

ExpertCompute = Literal["grouped", "gathered"]
Part = Literal["skips", "feed_forward"]  # of a block, that a forward pass may leave out


class Observer(Protocol):
    """Sees values of every layer by name, as the forward pass computes them.

    A name is that of the stack and of the place, such as `stack.block_output`; see
    `paribus.model.observed_places`. Layers count from 0 at the bottom. An observer must not change
    the value it is given, and is given only what it wants: some are computed for it alone.
    """

    def wants(self, name: str, layer: int) -> bool: ...

    def see(self, name: str, layer: int, value: Tensor) -> None: ...


class CachePass(Protocol):
    """Keys that were read before, for one forward pass, which adds its own.

    `has_own_keys` says that no query is padding: each has a key of its own among them.
    """

    @property
    def has_own_keys(self) -> bool: ...

    def head_groups(self, rule: Rule) -> tuple[Rule, ...]: ...

    def key_layout(self, rule: Rule) -> BatchLayout: ...

    def join(self, layer: int, new_keys: Keys) -> Keys: ...


@dataclass(frozen=True, eq=False)
class Forward:
    """How one forward pass is done; `stack` and `layer` say where in the model it is."""

    dropout_key: DropoutKey | None = None
    kernel: KernelChoice = "auto"
    compute: ExpertCompute = "grouped"
    observer: Observer | None = None
    cache: CachePass | None = None
    weights: JoinedWeights | None = None  # None: each product joins its own
    left_out: frozenset[Part] = frozenset()
    stack: str = "stack"
    layer: int = 0

    def in_layer(self, layer: int) -> Forward:
        """This forward pass as a layer of the stack sees it."""
        return replace(self, layer=layer)

    @property
    def is_reading(self) -> bool:
        """Is a text read that may grow? Its weights were joined for that."""
        return self.weights is not None

    @property
    def path(self) -> str:
        """The layer by its name among the modules."""
        return f"{self.stack}.layers.{self.layer}"

    def drop_out(self, hidden_BTD: Tensor, p: float, branch: str) -> Tensor:
        """The output of a branch of this layer after dropout."""
        if p == 0 or self.dropout_key is None:
            return hidden_BTD  # the layer's name is not asked for: compiled code serves every layer
        return dropout(hidden_BTD, p, self.dropout_key, f"{self.path}.{branch}")

    def join_keys(self, new_keys: Keys) -> Keys:
        """What this layer attends to: the keys of a cache before those of this pass, if there is
        one.
        """
        if self.cache is None:
            return new_keys
        return self.cache.join(self.layer, new_keys)

    def linear(self, rows: Tensor, layers: Sequence[Linear]) -> Tensor:
        """The outputs of layers that read the same rows, from one product."""
        if self.weights is None:
            return fused_linear(rows, layers)
        return self.weights.product(rows, layers)

    def observe(self, place: str, value: Tensor | Callable[[], Tensor]) -> None:
        """Let the observer see a value of this layer, if there is one and it wants it. What is
        computed for it alone is given as a function.
        """
        if self.observer is None:
            return
        name = f"{self.stack}.{place}"
        if self.observer.wants(name, self.layer):
            self.observer.see(name, self.layer, value if isinstance(value, Tensor) else value())

    def leaves_out(self, part: Part) -> bool:
        """Is a part of every block of this stack switched off?"""
        return part in self.left_out


PLAIN_FORWARD = Forward()
