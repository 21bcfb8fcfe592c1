"""May an objective be posed to a model? Derived from its masks, never listed by name."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from paribus.batch import N_SIGNS, Reading, Vocabulary
from paribus.errors import SpecError
from paribus.masks import (
    ASK_PREFIX,
    Layout,
    SameDocument,
    leaves,
    looks_ahead,
    path,
    reached_from,
    some_leak,
)
from paribus.objectives.posing import pose, splits
from paribus.objectives.problem import Problem
from paribus.spec import Resolved
from paribus.spec.objectives import MaskedLM, Mixture, Objective, PrefixLM, Seq2Seq, Simple, Weighted, parts

MOST_SPLITS = 32  # of an objective that are looked at where what a mask shows depends on the split


def keeps_documents(spec: Resolved) -> bool:
    """Do the masks ask which document a token belongs to?"""
    return any(SameDocument() in leaves(rule) for stack in spec.stacks for rule in stack.masks)


def permit(objective: Objective, spec: Resolved, length: int, allow_leaks: bool = False) -> None:
    """SpecError with the reason if a model of this spec cannot be asked, or could see the answer."""
    problems = [fault for part in parts(objective) for fault in _faults(part, spec, length, allow_leaks)]
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))


def _faults(part: Weighted, spec: Resolved, length: int, allow_leaks: bool) -> list[str]:
    try:
        example = specimen(part, spec, length)
    except SpecError as fault:
        return list(fault.problems)
    reach = example.inputs.layout.length
    longest = max(reach, example.inputs.source.layout.length if example.inputs.source else 0)
    if longest > spec.max_length:
        return [f"the objective reads {longest} positions, past max_length {spec.max_length}; use at most that"]
    faults = _no_prefix(part.objective, spec) or _blind(part.objective, example, spec, length)
    return faults if faults or allow_leaks else _leaks(part, example, spec, length)


def specimen(part: Weighted, spec: Resolved, length: int, split: int | None = None) -> Problem:
    """The problem of one made-up row: its shape is that of every row, or of those with this split."""
    vocabulary = _nobody(length)
    tokens = torch.arange(length)[None]
    pairs = isinstance(part.objective, Seq2Seq)
    reading = Reading(
        k=0,
        rows_B=torch.zeros(1, dtype=torch.int64),
        tokens_BT=tokens,
        documents_BT=torch.zeros_like(tokens),
        sentences_BT=torch.zeros_like(tokens),
        real_BT=torch.ones_like(tokens, dtype=torch.bool) if pairs else None,
        targets_from_B=torch.tensor([split or length // 2]) if pairs else None,
    )
    one = Mixture(parts=(part if split is None or pairs else _split_at(part, split, length),))
    return pose(one, reading, vocabulary, 0, spec.encoder is not None, keeps_documents(spec))


def _split_at(part: Weighted, split: int, length: int) -> Weighted:
    """The same part with one split alone."""
    share = split / length
    alone = part.objective.model_copy(update={"least": share, "most": share, "grid": length})
    return part.model_copy(update={"objective": alone})


def _nobody(n_text: int) -> Vocabulary:
    return Vocabulary(n_text, torch.zeros(n_text + N_SIGNS, dtype=torch.int64))


def _laid(example: Problem) -> Layout:
    length, prefix = example.inputs.layout.length, example.inputs.layout.prefix
    return Layout(length, int(prefix[0]) if isinstance(prefix, Tensor) else prefix)


def _no_prefix(objective: Simple, spec: Resolved) -> list[str]:
    """Does a decoder's mask ask for the prefix that the encoder has read?"""
    asking = [rule for rule in spec.stack.masks if leaves(rule) & ASK_PREFIX]
    if spec.encoder is None or not asking:
        return []
    return [
        f"objective.kind is {objective.kind!r} for an encoder-decoder, but the mask {asking[0]} asks for a prefix, and "
        f"a decoder reads the answer alone; use a mask without 'prefix' and 'same_part', such as 'causal'"
    ]


def _blind(objective: Simple, example: Problem, spec: Resolved, n_text: int) -> list[str]:
    """Does every position that must answer read a sign, and see no text from there?"""
    asked = example.at_BM[0][example.weights_BM[0] > 0]
    text = (example.inputs.tokens_BT[0] < n_text).numpy()
    if spec.encoder is not None or text[asked].any() or not len(asked):
        return []
    if reached_from(spec.stack.masks, _laid(example), text)[asked].any():
        return []
    return [
        f"objective.kind is {objective.kind!r}, under which position {int(asked[0])} must answer, but it can see "
        f"nothing of the text under the mask {spec.stack.masks[0]}; use {_otherwise(objective)}"
    ]


def _otherwise(objective: Simple) -> str:
    return "another mask, or longer rows" if isinstance(objective, MaskedLM) else "another mask, or 'masked'"


def _leaks(part: Weighted, example: Problem, spec: Resolved, length: int) -> list[str]:
    """The story of how an answer is seen at any split of the text, if one is."""
    found = _leak(part.objective, example, spec)
    if found or not looks_ahead(spec.stack.masks):
        return found
    for split in _splits(part.objective, spec, length):
        found = _leak(part.objective, specimen(part, spec, length, split), spec)
        if found:
            return found
    return []


def _splits(objective: Simple, spec: Resolved, length: int) -> list[int]:
    """Splits whose leaks are those of all; the first asks the most, but a mask may show more at a later one."""
    match objective:
        case PrefixLM():
            found = splits(objective, length)
        case Seq2Seq():
            found = list(range(1, length))
        case _:
            return []
    reads_prefix = any(leaves(rule) & ASK_PREFIX for rule in spec.stack.masks)
    return found[:: -(-len(found) // MOST_SPLITS)] if reads_prefix else found[:1]


def require_unseen(objective: Simple, problem: Problem, spec: Resolved) -> None:
    """SpecError with the reason if a model of this spec could see an answer of the problem's first row."""
    found = _leak(objective, problem, spec)
    if found:
        raise SpecError(found)


def _leak(objective: Simple, example: Problem, spec: Resolved) -> list[str]:
    """The story of how an answer is seen, if one is."""
    layout = _laid(example)
    asked = example.weights_BM[0] > 0
    sources = np.full(layout.length, -1)
    sources[example.at_BM[0][asked].numpy()] = example.answers_BM[0][asked].numpy()
    position = some_leak(spec.stack.masks, layout, sources)
    if position is None:
        return []
    answer = int(sources[position])
    route = path(spec.stack.masks, layout, position, answer)
    assert route is not None
    return [_told(objective, spec, position, answer, route)]


def _told(objective: Simple, spec: Resolved, position: int, answer: int, route: list[int]) -> str:
    hops = [
        f"layer {layer} ({spec.stack.masks[layer]}) shows position {below} to {above}"
        for layer, (below, above) in enumerate(itertools.pairwise(route))
        if below != above
    ]
    return (
        f"objective.kind is {objective.kind!r}, under which position {position} must predict the token at {answer}, "
        f"but it can see it: {', then '.join(hops)}; use another mask, or an objective such as 'masked'"
    )
