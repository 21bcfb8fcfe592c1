"""One value that goes through a forward pass: how to compute, what to drop, who looks on."""

from __future__ import annotations

from collections.abc import Sequence
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


class Observer(Protocol):
    """Sees the activations of every layer by name, as the forward pass computes them.

    A name is that of the stack and of the activation: `stack.attention_input`,
    `stack.attention_output`, `stack.feed_forward_output` and `stack.block_output`, each [B, T, D];
    where a layer reads a source also `stack.cross_output`; and the same with `encoder`. Layers
    count from 0 at the bottom. An observer must not change the value it is given.
    """

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

    def show(self, name: str, value: Tensor) -> None:
        """Let the observer see an activation of this layer, if there is one."""
        if self.observer is not None:
            self.observer.see(f"{self.stack}.{name}", self.layer, value)


PLAIN_FORWARD = Forward()
