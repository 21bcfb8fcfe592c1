"""A family of transformers models: what its config says, and where its tensors go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from paribus.interop.config import Config, Tables
from paribus.interop.names import Pairs
from paribus.spec import Dense, Experts, MultiHead, Resolved
from paribus.spec.architecture import Activation

Spelled = Iterable[tuple[str, Tensor]]


def as_written(name: str, tensor: Tensor) -> Spelled:
    """A tensor whose name on disk was always the same."""
    return ((name, tensor),)


def nothing(given: Config) -> tuple[str, ...]:
    """No pattern, or no problem."""
    return ()


@dataclass(frozen=True)
class Family:
    """One `model_type`; names are those of the class with a language-model head."""

    model_type: str
    title: str
    classname: str
    tables: Tables
    architecture: Callable[[Config, bool], dict[str, Any]]  # obeyed keys, is the head tied → table of a spec
    config: Callable[[Resolved], dict[str, Any]]  # → obeyed keys; UnsupportedError where not even a near one exists
    pairs: Callable[[Resolved, Config], Pairs]
    embedding: str  # the table of words
    head: str  # the head's own table, where it has one
    prefix: str = ""  # the base model within the headed one; a file of the base model alone leaves it out
    outer: tuple[str, ...] = ("lm_head.",)  # what stands outside the base model
    copies: Mapping[str, str] = field(default_factory=dict)  # tensor → the one it must equal if it is there
    prevails: Mapping[str, str] = field(default_factory=dict)  # tensor → the one it stands in for if it is there
    written_untied: Mapping[str, str] = field(default_factory=dict)  # tensor → its source, when the head is not tied
    zero_if_missing: frozenset[str] = frozenset()
    always_tied: bool = False  # tied when the head's table is missing, whatever the config says
    problems: Callable[[Config], Iterable[str]] = nothing  # values of obeyed keys that its class or ours cannot do
    passed_over: Callable[[Config], tuple[str, ...]] = nothing  # patterns of tensors that hold nothing learned
    spelled: Callable[[str, Tensor], Spelled] = as_written  # from older or fused names to those of `pairs`


def n_kv_heads(spec: Resolved) -> int:
    """Key/value heads of the first layer."""
    attention = spec.stack.layers[0].attention
    return (attention.n_kv_heads if isinstance(attention, MultiHead) else None) or attention.n_heads


def d_head(spec: Resolved) -> int:
    """Channels of a query of the first layer."""
    attention = spec.stack.layers[0].attention
    if isinstance(attention, MultiHead):
        assert attention.d_head
        return attention.d_head
    return attention.d_content + attention.d_rotary


def feed_forward(spec: Resolved) -> tuple[int, Activation]:
    """Width and activation of the first layer's branch; with experts, of one expert."""
    match spec.stack.layers[0].feed_forward:
        case Dense(d_ff=int(width), activation=activation):
            return width, activation
        case Experts(d_expert=int(width), activation=activation):
            return width, activation
        case other:
            raise AssertionError(f"{other} is not resolved")
