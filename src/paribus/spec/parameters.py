"""Every parameter of a resolved spec by name: its shape and its role, before anything is built.

One table serves three readers: the price counts it, the start draws from it, and a law holds the
built model to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal

from paribus.spec.architecture import (
    Architecture,
    Dense,
    Experts,
    FanInInit,
    Latent,
    LayerNorm,
    LearnedPositions,
    MultiHead,
    MupInit,
    NormalInit,
    NormKind,
    RelativeBias,
    SinusoidalPositions,
)
from paribus.spec.resolved import Block, ResolvedArchitecture, Stack, resolve

Role = Literal[
    "word", "position", "relative", "query", "inward", "residual", "router", "gain", "bias", "head"
]


SINUSOID_SIZE = 0.5**0.5  # root mean square of sines and cosines
MAX_POSITION_RATIO = 10  # of added positions over embeddings; beyond it they ruin training


@dataclass(frozen=True)
class Parameter:
    """`shape` ends in (outputs, inputs) for a matrix; `share` is the part a single token uses."""

    shape: tuple[int, ...]
    role: Role
    share: float = 1.0

    @property
    def count(self) -> int:
        return prod(self.shape)


NamedParameters = Iterator[tuple[str, Parameter]]


def parameters(spec: ResolvedArchitecture) -> dict[str, Parameter]:
    """Name → parameter, in the order of the built model's `named_parameters`."""
    return dict(_all_parameters(spec))


def text_parameters(spec: ResolvedArchitecture) -> dict[str, Parameter]:
    """The parameters that the states of a text depend on where it is only read: those of the
    encoder where there is one, never those of the output head alone.
    """
    used: dict[str, Parameter] = {}
    for name, parameter in parameters(spec).items():
        if _reads_text(name, spec):
            used[name] = parameter
    return used


def position_note(architecture: Architecture) -> str | None:
    """That sinusoids are added to embeddings of less than a tenth of their size, which learn little
    beside them; None where they are not.
    """
    if not isinstance(architecture.positions, SinusoidalPositions):
        return None
    spec = resolve(architecture)
    match spec.init:
        case NormalInit(std=std) | MupInit(std=std) | FanInInit(gain=std):
            size = std * float(spec.embedding.scale)
    if MAX_POSITION_RATIO * size >= SINUSOID_SIZE:
        return None
    scale = f"{spec.d_model**0.5:.3g}" if isinstance(spec.init, MupInit) else "'sqrt_d_model'"
    return (
        f"positions are sinusoids of size {SINUSOID_SIZE:.2g}, {SINUSOID_SIZE / size:.3g} times"
        f" that of the embeddings they are added to, {size:.2g} at the start; use embedding.scale"
        f" = {scale}, or other positions"
    )


def label_head_parameters(spec: ResolvedArchitecture, n_labels: int) -> dict[str, Parameter]:
    """The parameters of a head from states to labels, which a stage may add to the transformer."""
    return dict(_matrix("label_head", n_labels, spec.d_model, "head", bias=True))


def _reads_text(name: str, spec: ResolvedArchitecture) -> bool:
    part, *path = name.split(".")
    if part == "head":
        return False
    if part != "stack" or spec.encoder is None or spec.is_one_stack:
        return True
    # of an encoder-decoder, the encoder may have the decoder's blocks, without what reads a source
    return spec.shared and path[0] == "layers" and path[2] not in ("cross", "cross_norm")


def _all_parameters(spec: ResolvedArchitecture) -> NamedParameters:
    yield "embedding.weight", Parameter((spec.n_vocab, spec.d_model), "word")
    if spec.embedding.n_segments:
        yield "segments.weight", Parameter((spec.embedding.n_segments, spec.d_model), "position")
    yield from _stack("stack", spec, spec.stack, own_blocks=True)
    if spec.encoder is not None and not spec.is_one_stack:
        yield from _stack("encoder", spec, spec.encoder, own_blocks=not spec.shared)
    yield from _head(spec)


def _stack(
    path: str, spec: ResolvedArchitecture, stack: Stack, own_blocks: bool
) -> NamedParameters:
    match stack.positions:
        case LearnedPositions(offset=offset):
            yield (
                f"{path}.positions.weight",
                Parameter((spec.max_length + offset, spec.d_model), "position"),
            )
        case RelativeBias(n_buckets=n_buckets):
            n_heads = stack.layers[0].attention.n_heads
            yield f"{path}.positions.weight", Parameter((n_buckets, n_heads), "relative")
        case _:
            pass
    if spec.embedding.norm:
        yield from _norm(f"{path}.embedding_norm", spec.norm, spec.d_model)
    if own_blocks:
        for number, block in enumerate(stack.layers):
            yield from _block(f"{path}.layers.{number}", spec, block)
    if spec.placement != "post":
        yield from _norm(f"{path}.final_norm", spec.norm, spec.d_model)


def _block(path: str, spec: ResolvedArchitecture, block: Block) -> NamedParameters:
    parallel = spec.placement == "parallel"
    yield from _norm(f"{path}.attention_norm", spec.norm, spec.d_model)
    yield from _attention(f"{path}.attention", spec, block.attention)
    if block.cross is not None and block.cross_form == "separate":
        if not parallel:
            yield from _norm(f"{path}.cross_norm", spec.norm, spec.d_model)
        yield from _attention(f"{path}.cross", spec, block.attention)
    if not parallel:
        yield from _norm(f"{path}.feed_forward_norm", spec.norm, spec.d_model)
    yield from _feed_forward(f"{path}.feed_forward", spec.d_model, block.feed_forward)


def _attention(
    path: str, spec: ResolvedArchitecture, attention: MultiHead | Latent
) -> NamedParameters:
    d_model = spec.d_model
    if isinstance(attention, Latent):
        yield from _latent(path, spec, attention)
        return
    assert attention.d_head
    assert attention.n_kv_heads
    d_query, d_key = attention.n_heads * attention.d_head, attention.n_kv_heads * attention.d_head
    yield from _matrix(f"{path}.query", d_query, d_model, "query", attention.bias)
    yield from _matrix(f"{path}.key", d_key, d_model, "inward", attention.bias)
    yield from _matrix(f"{path}.value", d_key, d_model, "inward", attention.bias)
    yield from _matrix(f"{path}.output", d_model, d_query, "residual", attention.bias)
    if attention.qk_norm is True:  # a fixed norm has no parameters
        yield from _norm(f"{path}.query_norm", spec.norm, attention.d_head)
        yield from _norm(f"{path}.key_norm", spec.norm, attention.d_head)
    if attention.value_norm:
        yield from _norm(f"{path}.value_norm", spec.norm, attention.d_head)
    if attention.output_norm:
        yield from _norm(f"{path}.output_norm", spec.norm, d_query)


def _latent(path: str, spec: ResolvedArchitecture, attention: Latent) -> NamedParameters:
    d_query = attention.n_heads * (attention.d_content + attention.d_rotary)
    d_up = attention.n_heads * (attention.d_content + attention.d_value)
    if attention.d_query_latent is None:
        yield from _matrix(f"{path}.query", d_query, spec.d_model, "inward", False)
    else:
        yield from _matrix(
            f"{path}.query_down", attention.d_query_latent, spec.d_model, "inward", False
        )
        yield from _norm(f"{path}.query_norm", spec.norm, attention.d_query_latent)
        yield from _matrix(f"{path}.query", d_query, attention.d_query_latent, "inward", False)
    yield from _matrix(
        f"{path}.latent", attention.d_latent + attention.d_rotary, spec.d_model, "inward", False
    )
    yield from _norm(f"{path}.latent_norm", spec.norm, attention.d_latent)
    yield from _matrix(f"{path}.key_value", d_up, attention.d_latent, "inward", False)
    yield from _matrix(
        f"{path}.output", spec.d_model, attention.n_heads * attention.d_value, "residual", False
    )


def _feed_forward(path: str, d_model: int, feed_forward: Dense | Experts) -> NamedParameters:
    if isinstance(feed_forward, Dense):
        assert feed_forward.d_ff
        yield from _dense(path, d_model, feed_forward.d_ff, feed_forward.gated, feed_forward.bias)
        return
    assert feed_forward.d_expert
    active_share = feed_forward.n_active / feed_forward.n_experts
    wide, narrow = (
        (feed_forward.n_experts, feed_forward.d_expert, d_model),
        (feed_forward.n_experts, d_model, feed_forward.d_expert),
    )
    yield f"{path}.router.weight", Parameter((feed_forward.n_experts, d_model), "router")
    if feed_forward.gated:
        yield f"{path}.gate", Parameter(wide, "inward", active_share)
    yield f"{path}.up", Parameter(wide, "inward", active_share)
    yield f"{path}.down", Parameter(narrow, "residual", active_share)
    if feed_forward.n_shared:
        yield from _dense(
            f"{path}.shared",
            d_model,
            feed_forward.n_shared * feed_forward.d_expert,
            feed_forward.gated,
            False,
        )


def _dense(path: str, d_model: int, d_ff: int, gated: bool, bias: bool) -> NamedParameters:
    if gated:
        yield from _matrix(f"{path}.gate", d_ff, d_model, "inward", bias)
    yield from _matrix(f"{path}.up", d_ff, d_model, "inward", bias)
    yield from _matrix(f"{path}.down", d_model, d_ff, "residual", bias)


def _head(spec: ResolvedArchitecture) -> NamedParameters:
    if spec.head.transform is not None:
        yield from _matrix("head.transform", spec.d_model, spec.d_model, "inward", True)
        yield from _norm("head.norm", spec.norm, spec.d_model)
    if not spec.head.tied:
        yield "head.weight", Parameter((spec.n_vocab, spec.d_model), "head")
    if spec.head.bias:
        yield "head.bias", Parameter((spec.n_vocab,), "bias")


def _matrix(path: str, d_out: int, d_in: int, role: Role, bias: bool) -> NamedParameters:
    yield f"{path}.weight", Parameter((d_out, d_in), role)
    if bias:
        yield f"{path}.bias", Parameter((d_out,), "bias")


def _norm(path: str, norm: NormKind, width: int) -> NamedParameters:
    yield f"{path}.weight", Parameter((width,), "gain")
    if isinstance(norm, LayerNorm) and norm.bias:
        yield f"{path}.bias", Parameter((width,), "bias")
