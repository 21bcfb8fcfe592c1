"""Maximal update parametrisation (Tensor Programs V, arXiv 2203.03466, Table 8): what it asks of an
architecture, and what it does not go with.
"""

from __future__ import annotations

from collections.abc import Iterator

from paribus.spec.architecture import Architecture, Experts, Latent, MultiHead, MupInit

BASE_WIDTH = 64  # the width at which logits, and rates of square matrices, are as written
EPS_FACTOR = 1e-4  # on AdamW's eps, whose default becomes 1e-12: gradients shrink with the width
BEYOND_THE_PAPER = "experts are beyond the paper"


def uses_mup(architecture: Architecture) -> bool:
    """Is an architecture initialised by the maximal update parametrisation?"""
    return isinstance(architecture.init, MupInit)


def mup_logit_factor(architecture: Architecture) -> float:
    """What the logits of a tied head are multiplied by; 1 under another initialisation."""
    if uses_mup(architecture) and architecture.head.tied:
        return BASE_WIDTH / architecture.d_model
    return 1.0


def mup_score_scale(architecture: Architecture, d_head: int) -> float | None:
    """The factor on attention scores; None under another initialisation."""
    if isinstance(architecture.init, MupInit):
        return architecture.init.d_head_base**0.5 / d_head
    return None


def mup_note(architecture: Architecture) -> str | None:
    """What a person should know of an architecture under the parametrisation."""
    if uses_mup(architecture) and isinstance(architecture.feed_forward, Experts):
        return f"init is 'mup', and {BEYOND_THE_PAPER}: rates need not transfer over width"
    return None


def mup_problems(architecture: Architecture) -> Iterator[str]:
    """What of an architecture the parametrisation does not go with."""
    if not uses_mup(architecture):
        return
    attention = architecture.attention
    if architecture.placement == "post":
        yield (
            "placement is 'post' with init 'mup', which is for norms before the branches; use 'pre'"
            " or 'parallel', or another init"
        )
    if isinstance(attention, Latent):
        yield (
            "attention.kind is 'latent' with init 'mup', which has no rule for latents; use"
            " 'multi_head', or another init"
        )
    if isinstance(attention, MultiHead) and attention.score_scale is not None:
        yield (
            f"attention.score_scale is {attention.score_scale:g} with init 'mup', which sets it to"
            " √d_head_base / d_head; leave it out, or use another init"
        )
    if isinstance(attention, MultiHead) and attention.qk_norm:
        yield (
            f"attention.qk_norm is {str(attention.qk_norm).lower()} with init 'mup', whose queries"
            " start at zero and have no norm; use false, or another init"
        )
    for name in ("embedding", "head"):
        scale = getattr(architecture, name).scale
        if isinstance(scale, str):
            yield (
                f"{name}.scale is {scale!r} with init 'mup', which has a factor of its own for the"
                " width; use a number, or another init"
            )


def growth_problems(small: Architecture, large: Architecture) -> Iterator[str]:
    """Why a rate that was found at one size does not hold at another: under the parametrisation it
    transfers over width alone.
    """
    if not (uses_mup(small) and uses_mup(large)):
        return
    depths = {"n_layers": (small.n_layers, large.n_layers)}
    if small.encoder is not None and large.encoder is not None:
        depths["encoder.n_layers"] = (small.encoder.n_layers, large.encoder.n_layers)
    for name, (one, other) in depths.items():
        if one != other:
            yield (
                f"{name} changes from {one} to {other} with init 'mup', which transfers rates over"
                " width alone; change only d_model and n_heads, or use another init"
            )
    heads = [head_width(one) for one in (small, large)]
    if heads[0] != heads[1]:
        yield (
            f"attention.d_head changes from {heads[0]} to {heads[1]} with init 'mup', which"
            " transfers rates at one size of heads; grow n_heads with d_model, or use another init"
        )


def head_width(architecture: Architecture) -> int | None:
    """The dimensions of each head; None where heads have no one size."""
    if isinstance(architecture.attention, MultiHead):
        return architecture.attention.d_head or (
            architecture.d_model // architecture.attention.n_heads
        )
    return None
