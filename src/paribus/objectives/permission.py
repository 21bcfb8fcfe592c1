"""May an objective be posed to a model? Derived from its masks, never listed by name."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from paribus.batch import N_SIGNS, Reading, Vocabulary
from paribus.errors import SpecError
from paribus.masks import Layout, SameDocument, leaks, leaves, path, reachability
from paribus.objectives.posing import pose
from paribus.objectives.problem import Problem
from paribus.spec import Resolved
from paribus.spec.objectives import MaskedLM, Mixture, Objective, Seq2Seq, Simple, Weighted, parts

LONGEST = 1024  # positions over which leaks are looked for


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
    blind = _blind(part.objective, example, spec, length)
    return blind if blind or allow_leaks else _leak(part.objective, example, spec)


def specimen(part: Weighted, spec: Resolved, length: int) -> Problem:
    """The problem of one made-up row: its shape is that of every row."""
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
        targets_from_B=torch.tensor([length // 2]) if pairs else None,
    )
    one = Mixture(parts=(part,))
    return pose(one, reading, vocabulary, 0, spec.encoder is not None, keeps_documents(spec))


def _nobody(n_text: int) -> Vocabulary:
    return Vocabulary(n_text, torch.zeros(n_text + N_SIGNS, dtype=torch.int64))


def _laid(example: Problem) -> Layout:
    length = min(example.inputs.layout.length, LONGEST)
    prefix = example.inputs.layout.prefix
    begins = int(prefix[0]) if isinstance(prefix, Tensor) else prefix
    return Layout(length, min(begins, length))


def _blind(objective: Simple, example: Problem, spec: Resolved, n_text: int) -> list[str]:
    """Does every position that must answer read a sign, and see no text from there?"""
    layout, tokens = _laid(example), example.inputs.tokens_BT[0]
    asked = example.at_BM[0][example.weights_BM[0] > 0]
    asked = asked[asked < layout.length]
    text = (tokens < n_text).numpy()[: layout.length]
    if spec.encoder is not None or text[asked].any() or not len(asked):
        return []
    if (reachability(spec.stack.masks, layout)[asked] & text).any():
        return []
    return [
        f"objective.kind is {objective.kind!r}, under which position {int(asked[0])} must answer, but it can see "
        f"nothing of the text under the mask {spec.stack.masks[0]}; use {_otherwise(objective)}"
    ]


def _otherwise(objective: Simple) -> str:
    return "another mask, or longer rows" if isinstance(objective, MaskedLM) else "another mask, or 'masked'"


def _leak(objective: Simple, example: Problem, spec: Resolved) -> list[str]:
    """The shortest story of how an answer is seen, if one is."""
    layout = _laid(example)
    length = layout.length
    sources = np.full(length, -1)
    asked = example.weights_BM[0] > 0
    for position, answer in zip(example.at_BM[0][asked].tolist(), example.answers_BM[0][asked].tolist(), strict=True):
        if position < length and answer < length:
            sources[position] = answer
    found = leaks(spec.stack.masks, layout, sources)
    if not len(found):
        return []
    position = int(found[0])
    route = path(spec.stack.masks, layout, position, int(sources[position]))
    assert route is not None
    return [_told(objective, spec, position, int(sources[position]), route)]


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
