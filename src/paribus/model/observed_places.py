"""The places of a forward pass that an observer can see, and what lies there."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.spec import Block, Dense, ResolvedArchitecture, Stack

STATE = "[sequences, tokens, d_model]"
WEIGHTS = "[sequences, heads, queries, keys], float32"
MASK = "[sequences or 1, heads or 1, queries, keys], true or false"
# by name, in the order in which a forward pass comes to them
PLACES: Mapping[str, str] = {
    "embedding": f"what the first layer reads, {STATE}",
    "attention_input": f"what self-attention reads; after the norm in pre-norm models, {STATE}",
    "attention_scores": f"what its softmax is given, before the mask, {WEIGHTS}",
    "attention_mask": f"which keys each query sees, {MASK}",
    "attention_weights": f"how much of each key a query takes, {WEIGHTS}",
    "attention_output": f"the output of self-attention, before dropout, {STATE}",
    "cross_scores": f"what the softmax of cross-attention is given, before the mask, {WEIGHTS}",
    "cross_mask": f"which keys of the source each query sees, {MASK}",
    "cross_weights": f"how much of each key of the source a query takes, {WEIGHTS}",
    "cross_output": f"the output of cross-attention, before dropout, {STATE}",
    "router_scores": "each token's scores of all experts, of sum 1, [sequences, tokens, experts]",
    "expert_choice": "the experts of each token, [sequences, tokens, active experts]",
    "expert_gates": "the weights of their outputs, [sequences, tokens, active experts]",
    "feed_forward_output": f"the output of the feed-forward branch, before dropout, {STATE}",
    "block_output": f"the residual stream after the layer, {STATE}",
    "output": f"what the output head or a decoder reads: after the final norm, {STATE}",
}
STACKS = ("stack", "encoder")
_OF_CROSS = ("cross_scores", "cross_mask", "cross_weights", "cross_output")
_OF_WEIGHTS = ("attention_scores", "attention_mask", "attention_weights")
_OF_EXPERTS = ("router_scores", "expert_choice", "expert_gates")


def places_of(spec: ResolvedArchitecture) -> dict[str, tuple[int, ...]]:
    """Where an architecture can be looked at: names such as `stack.block_output`, each with its
    layers.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name, stack in (("encoder", spec.encoder), ("stack", spec.stack)):
        if stack is None:
            continue
        for place in PLACES:
            layers = _layers_with(stack, place)
            if layers:
                found[f"{name}.{place}"] = layers
    return found


def _layers_with(stack: Stack, place: str) -> tuple[int, ...]:
    last = len(stack.layers) - 1
    if place == "embedding":
        return (0,)
    if place == "output":
        return (last,)
    return tuple(number for number, block in enumerate(stack.layers) if _has(block, place))


def _has(block: Block, place: str) -> bool:
    is_merged = block.cross_form == "merged"
    if place in _OF_CROSS:
        return block.cross is not None and not is_merged
    if place in _OF_WEIGHTS:  # one softmax is over two sequences
        return not is_merged
    if place in _OF_EXPERTS:
        return not isinstance(block.feed_forward, Dense)
    return True
