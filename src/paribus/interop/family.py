"""A family of transformers models: what its config says, and where its tensors go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from paribus.interop.config_keys import Config, ConfigKeys
from paribus.interop.tensor_pairs import TensorPairs
from paribus.spec import Dense, Experts, MultiHead, ResolvedArchitecture
from paribus.spec.architecture import Activation

NamedTensors = Iterable[tuple[str, Tensor]]


def same_name(name: str, tensor: Tensor) -> NamedTensors:
    """A tensor whose name on disk was always the same."""
    return ((name, tensor),)


def no_entries(config: Config) -> tuple[str, ...]:
    """No pattern, or no problem."""
    return ()


@dataclass(frozen=True)
class ModelFamily:
    """One `model_type`; names are those of the class with a language-model head."""

    model_type: str
    title: str
    class_name: str
    objective: str  # the kind that its models are trained with
    config_keys: ConfigKeys
    # obeyed keys, is the head tied → table of a spec
    architecture: Callable[[Config, bool], dict[str, Any]]
    # → obeyed keys; UnsupportedError where not even a near one exists
    config: Callable[[ResolvedArchitecture], dict[str, Any]]
    tensor_pairs: Callable[[ResolvedArchitecture, Config], TensorPairs]
    embedding: str  # the table of words
    head: str  # the head's own table, where it has one
    prefix: str = (
        ""  # the base model within the headed one; a file of the base model alone leaves it out
    )
    outside_prefix: tuple[str, ...] = ("lm_head.",)  # what stands outside the base model
    # tensor → the one it must equal if it is there
    copies: Mapping[str, str] = field(default_factory=dict)
    # tensor → the one it stands in for if it is there
    overrides: Mapping[str, str] = field(default_factory=dict)
    # tensor → its source, when the head is not tied
    copies_if_untied: Mapping[str, str] = field(default_factory=dict)
    zero_if_missing: frozenset[str] = frozenset()
    always_tied: bool = False  # tied when the head's table is missing, whatever the config says
    problems: Callable[[Config], Iterable[str]] = (
        no_entries  # values of obeyed keys that its class or ours cannot do
    )
    ignored_tensors: Callable[[Config], tuple[str, ...]] = (
        no_entries  # patterns of tensors that hold nothing learned
    )
    canonical_names: Callable[[str, Tensor], NamedTensors] = (
        same_name  # from older or fused names to those of `tensor_pairs`
    )


def n_kv_heads(spec: ResolvedArchitecture) -> int:
    """Key/value heads of the first layer."""
    attention = spec.stack.layers[0].attention
    return (attention.n_kv_heads if isinstance(attention, MultiHead) else None) or attention.n_heads


def d_head(spec: ResolvedArchitecture) -> int:
    """Channels of a query of the first layer."""
    attention = spec.stack.layers[0].attention
    if isinstance(attention, MultiHead):
        assert attention.d_head
        return attention.d_head
    return attention.d_content + attention.d_rotary


def feed_forward_shape(spec: ResolvedArchitecture) -> tuple[int, Activation]:
    """Width and activation of the first layer's branch; with experts, of one expert."""
    match spec.stack.layers[0].feed_forward:
        case Dense(d_ff=int(width), activation=activation):
            return width, activation
        case Experts(d_expert=int(width), activation=activation):
            return width, activation
        case other:
            raise AssertionError(f"{other} is not resolved")
