"""May an objective be posed to a model? Derived from its masks, never listed by name."""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from paribus.batch import N_SPECIAL_TOKENS, TextBatch, Vocabulary
from paribus.errors import SpecError
from paribus.masks import (
    DOCUMENT_RULES,
    PREFIX_RULES,
    DocumentsSoFar,
    Rule,
    SequenceLayout,
    find_leak,
    find_path,
    leaves,
    looks_ahead,
    reachable_from,
)
from paribus.objectives.pooling import require_whole_text
from paribus.objectives.posing import pose_problem
from paribus.objectives.problem import Problem
from paribus.objectives.source_target import possible_splits
from paribus.spec import ResolvedArchitecture
from paribus.spec.objectives import (
    MaskedLM,
    Mixture,
    MixtureComponent,
    Objective,
    PrefixLM,
    Seq2Seq,
    SimpleObjective,
    TextLabels,
    WordTags,
    components_of,
)

MAX_CACHED = 1024  # answers; arms of a design ask the same again and again
MAX_SPLITS = 32  # of an objective that are looked at where what a mask shows depends on the split


def separates_documents(spec: ResolvedArchitecture) -> bool:
    """Do the masks ask which document a token belongs to?"""
    return spec.asks_for_documents


def reads_on(spec: ResolvedArchitecture) -> bool:
    """Is the text one sequence through all documents, beside a source that keeps them apart? Its
    positions then go on from one document to the next.
    """
    rules: set[Rule] = set()
    cross: set[Rule] = set()
    for block in spec.stack.layers:
        rules |= leaves(block.mask)
        cross |= leaves(block.cross) if block.cross is not None else set()
    return DocumentsSoFar() in cross and not rules & DOCUMENT_RULES


def require_permitted(
    objective: Objective, spec: ResolvedArchitecture, length: int, allow_leaks: bool = False
) -> None:
    """SpecError with the reason if a model of this spec cannot be asked, or could see the
    answer.
    """
    if isinstance(objective, TextLabels | WordTags):
        _require_readable_text(objective, spec, length)
        return
    problems: list[str] = []
    for component in components_of(objective):
        # a frozen spec has a hash, which its type does not say
        problems += _component_faults(
            component,  # pyright: ignore[reportArgumentType]
            spec,  # pyright: ignore[reportArgumentType]
            length,
            allow_leaks,
        )
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))


def _require_readable_text(
    objective: TextLabels | WordTags, spec: ResolvedArchitecture, length: int
) -> None:
    """SpecError where a row of this length is too long, or does not all reach what a head reads."""
    if length > spec.max_length:
        raise SpecError(
            f"the objective reads {length} positions, past max_length {spec.max_length}; use at"
            " most that"
        )
    if isinstance(objective, TextLabels):
        n_before = 0 if separates_documents(spec) else 1
        require_whole_text(objective.pooling, spec, n_before, length - 1)


@lru_cache(MAX_CACHED)
def _component_faults(
    component: MixtureComponent, spec: ResolvedArchitecture, length: int, allow_leaks: bool
) -> tuple[str, ...]:
    try:
        example = example_problem(component, spec, length)
    except SpecError as fault:
        return tuple(fault.problems)
    reach = example.inputs.layout.length
    longest = max(reach, example.inputs.source.layout.length if example.inputs.source else 0)
    if longest > spec.max_length:
        return (
            f"the objective reads {longest} positions, past max_length {spec.max_length}; use at"
            " most that",
        )
    faults = _prefix_faults(component.objective, spec) or _blind_faults(
        component.objective, example, spec, length
    )
    if faults or allow_leaks:
        return tuple(faults)
    return tuple(_leak_faults(component, example, spec, length))


def example_problem(
    component: MixtureComponent, spec: ResolvedArchitecture, length: int, split: int | None = None
) -> Problem:
    """The problem of one made-up row: its shape is that of every row, or of those with this
    split.
    """
    vocabulary = _dummy_vocabulary(length)
    tokens = torch.arange(length)[None]
    pairs = isinstance(component.objective, Seq2Seq)
    reading = TextBatch(
        k=0,
        rows_B=torch.zeros(1, dtype=torch.int64),
        tokens_BT=tokens,
        documents_BT=torch.zeros_like(tokens),
        sentences_BT=torch.zeros_like(tokens),
        real_BT=torch.ones_like(tokens, dtype=torch.bool) if pairs else None,
        target_starts_B=torch.tensor([split or length // 2]) if pairs else None,
    )
    one = Mixture(
        components=(component if split is None or pairs else _split_at(component, split, length),)
    )
    return pose_problem(
        one, reading, vocabulary, 0, spec.encoder is not None, separates_documents(spec)
    )


def _split_at(component: MixtureComponent, split: int, length: int) -> MixtureComponent:
    """A component with one split alone."""
    share = split / length
    alone = component.objective.model_copy(update={"least": share, "most": share, "grid": length})
    return component.model_copy(update={"objective": alone})


def _dummy_vocabulary(n_text: int) -> Vocabulary:
    return Vocabulary(n_text, torch.zeros(n_text + N_SPECIAL_TOKENS, dtype=torch.int64))


def _sequence_layout(example: Problem) -> SequenceLayout:
    length, prefix = example.inputs.layout.length, example.inputs.layout.prefix
    return SequenceLayout(length, int(prefix[0]) if isinstance(prefix, Tensor) else prefix)


def _prefix_faults(objective: SimpleObjective, spec: ResolvedArchitecture) -> list[str]:
    """Does a decoder's mask ask for the prefix that the encoder has read?"""
    asking = [rule for rule in spec.stack.masks if leaves(rule) & PREFIX_RULES]
    if spec.encoder is None or not asking:
        return []
    return [
        f"objective.kind is {objective.kind!r} for an encoder-decoder, but the mask {asking[0]}"
        " asks for a prefix, and a decoder reads only the target; use a mask without 'prefix' and"
        " 'same_side', such as 'causal'"
    ]


def _blind_faults(
    objective: SimpleObjective, example: Problem, spec: ResolvedArchitecture, n_text: int
) -> list[str]:
    """Does every position that must answer read a special token, and see no text from there?"""
    scored_positions = example.scored_positions_BM[0][example.weights_BM[0] > 0]
    text = (example.inputs.tokens_BT[0] < n_text).numpy()
    if spec.encoder is not None or text[scored_positions].any() or not len(scored_positions):
        return []
    if reachable_from(spec.stack.masks, _sequence_layout(example), text)[scored_positions].any():
        return []
    first = int(scored_positions[0])
    return [
        f"objective.kind is {objective.kind!r}, under which position {first} must answer, but"
        f" it can see nothing of the text under the mask {spec.stack.masks[0]}; use"
        f" {_suggestion(objective)}"
    ]


def _suggestion(objective: SimpleObjective) -> str:
    if isinstance(objective, MaskedLM):
        return "another mask, or longer rows"
    return "another mask, or 'masked'"


def _leak_faults(
    component: MixtureComponent, example: Problem, spec: ResolvedArchitecture, length: int
) -> list[str]:
    """The story of how an answer is seen at any split of the text, if one is."""
    faults = _example_leak_faults(component.objective, example, spec)
    if faults or not looks_ahead(spec.stack.masks):
        return faults
    for split in _splits_to_check(component.objective, spec, length):
        faults = _example_leak_faults(
            component.objective, example_problem(component, spec, length, split), spec
        )
        if faults:
            return faults
    return []


def _splits_to_check(
    objective: SimpleObjective, spec: ResolvedArchitecture, length: int
) -> list[int]:
    """Splits whose leaks are those of all; the first asks the most, but a mask may show more at
    a later one.
    """
    match objective:
        case PrefixLM():
            splits = possible_splits(objective, length)
        case Seq2Seq():
            splits = list(range(1, length))
        case _:
            return []
    reads_prefix = any(leaves(rule) & PREFIX_RULES for rule in spec.stack.masks)
    if reads_prefix:
        return splits[:: -(-len(splits) // MAX_SPLITS)]
    return splits[:1]


def require_no_leak(
    objective: SimpleObjective, problem: Problem, spec: ResolvedArchitecture
) -> None:
    """SpecError with the reason if a model of this spec could see an answer of the problem's
    first row.
    """
    faults = _example_leak_faults(objective, problem, spec)
    if faults:
        raise SpecError(faults)


def _example_leak_faults(
    objective: SimpleObjective, example: Problem, spec: ResolvedArchitecture
) -> list[str]:
    """The story of how an answer is seen, if one is."""
    layout = _sequence_layout(example)
    is_scored = example.weights_BM[0] > 0
    sources = np.full(layout.length, -1)
    sources[example.scored_positions_BM[0][is_scored].numpy()] = example.target_positions_BM[0][
        is_scored
    ].numpy()
    position = find_leak(spec.stack.masks, layout, sources)
    if position is None:
        return []
    answer = int(sources[position])
    route = find_path(spec.stack.masks, layout, position, answer)
    assert route is not None
    return [_describe_leak(objective, spec, position, answer, route)]


def _describe_leak(
    objective: SimpleObjective,
    spec: ResolvedArchitecture,
    position: int,
    target: int,
    route: list[int],
) -> str:
    hops = [
        f"layer {layer} ({spec.stack.masks[layer]}) shows position {below} to {above}"
        for layer, (below, above) in enumerate(itertools.pairwise(route))
        if below != above
    ]
    return (
        f"objective.kind is {objective.kind!r}, under which position {position} must predict the"
        f" token at {target}, but it can see it: {', then '.join(hops)}; use another mask, or an"
        " objective such as 'masked'"
    )
