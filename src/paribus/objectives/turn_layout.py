"""A conversation for an encoder-decoder that encodes each turn alone: what stands between two
answers is a document of the source, and the answers are one text.

    source  ‹user› a ‹end of turn› ‹assistant› | ‹user› b ‹end of turn› ‹assistant›
    text    ‹start› c ‹end of turn›            | ‹start› d ‹end of turn›

Document i of the text sees documents 1 to i of the source. With one turn this is how any pair is
laid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paribus.batch import TextBatch
from paribus.objectives.problem import Problem
from paribus.objectives.problem_layout import SourceTarget, encoder_decoder_problem
from paribus.spec.corpus import ROLES
from paribus.vocabulary import Vocabulary

ASSISTANT_ROLE = "assistant"
_Ids = tuple[int, ...]


@dataclass(frozen=True)
class EncodedTurns:
    """The turns of a conversation: what the encoder reads of each, and what was answered. The last
    answer is the one that is asked for, so far as it was said.
    """

    sources: tuple[_Ids, ...]
    answers: tuple[_Ids, ...]

    def text(self, start: int) -> _Ids:
        """What the decoder reads before it says more; `start` begins each answer."""
        tokens: list[int] = []
        for answer in self.answers:
            tokens += [start, *answer]
        return tuple(tokens)

    @property
    def text_starts(self) -> list[int]:
        """The place in the text at which each answer begins."""
        starts, place = [], 0
        for answer in self.answers:
            starts.append(place)
            place += 1 + len(answer)
        return starts


def split_turns(ids: Sequence[int], vocabulary: Vocabulary) -> EncodedTurns:
    """The turns of a conversation up to where the assistant speaks. Without roles it is one turn;
    what is left of a turn whose beginning was cut belongs to the first source.
    """
    roles = _role_ids(vocabulary)
    sources: list[list[int]] = [[]]
    answers: list[list[int]] = [[]]
    in_answer, n_answers = False, 0
    for token in ids:
        if token in roles.values():
            if n_answers == len(sources):
                sources.append([])
                answers.append([])
            sources[n_answers].append(token)
            in_answer = token == roles[ASSISTANT_ROLE]
            n_answers += in_answer
        elif in_answer:
            answers[-1].append(token)
        else:
            sources[-1].append(token)
    return EncodedTurns(tuple(map(tuple, sources)), tuple(map(tuple, answers)))


def has_earlier_turns(ids: Sequence[int], vocabulary: Vocabulary) -> bool:
    """Does a conversation have a turn before the last one?"""
    assistant = _role_ids(vocabulary).get(ASSISTANT_ROLE)
    return assistant is not None and list(ids[:-1]).count(assistant) > 0


def _role_ids(vocabulary: Vocabulary) -> dict[str, int]:
    """The ids of roles; none in an imported vocabulary that lacks them."""
    special_tokens = vocabulary.named_special_tokens
    if ASSISTANT_ROLE not in special_tokens:
        return {}
    return {role: special_tokens[role] for role in ROLES}


def turns_problem(turns: EncodedTurns, ending: _Ids, n_scored: int, start: int) -> Problem:
    """What a conversation asks that ends so: the last tokens of it are scored."""
    answers = [*turns.answers[:-1], (*turns.answers[-1], *ending)]
    whole = EncodedTurns(turns.sources, tuple(answers)).text(start)[1:]  # a start is put before it
    documents: list[int] = []
    for number, answer in enumerate(answers):
        documents += [number] * (len(answer) + int(number > 0))
    source: list[int] = []
    source_documents: list[int] = []
    for number, tokens in enumerate(turns.sources):
        source += tokens
        source_documents += [number] * len(tokens)
    is_scored = torch.arange(len(whole)) >= len(whole) - n_scored
    pair = SourceTarget(
        source_BS=torch.tensor([source]),
        target_BM=torch.tensor([whole]),
        source_documents_BS=torch.tensor([source_documents]),
        target_documents_BM=torch.tensor([documents]),
        target_scored_BM=is_scored[None],
    )
    rows_B = torch.zeros(1, dtype=torch.int64)  # which only dropout asks for
    problem = encoder_decoder_problem(pair, rows_B, True, start)
    layout = replace(problem.inputs.layout, positions_BT=None)  # the answers are one text
    return replace(problem, inputs=replace(problem.inputs, layout=layout))


def turn_pair(text: TextBatch, vocabulary: Vocabulary) -> SourceTarget:
    """Rows of conversations as `split_turns` has them, the last answer the one that is scored."""
    assert text.target_starts_B is not None
    assert text.real_BT is not None
    tokens, real = text.tokens_BT, text.real_BT
    roles = _role_ids(vocabulary)
    place = torch.arange(tokens.shape[1]).expand_as(tokens)
    is_target = real & (place >= text.target_starts_B[:, None])
    is_question = real & ~is_target
    is_assistant = is_question & (tokens == roles.get(ASSISTANT_ROLE, -1))
    is_role = is_question & torch.isin(tokens, torch.tensor([*roles.values(), -1]))
    in_answer = is_target | (is_question & ~is_role & _follows(is_assistant, is_role))
    in_source = real & ~in_answer
    n_before = is_assistant.long().cumsum(1) - is_assistant.long()
    document = torch.where(in_answer, (n_before - 1).clamp(min=0), n_before)
    in_source_at = in_source.long().cumsum(1) - 1
    # each answer but the first has a token that begins it
    in_text_at = in_answer.long().cumsum(1) - 1 + document
    is_first = in_answer & is_assistant.roll(1, 1) & (document > 0)
    starts = torch.full_like(tokens, vocabulary.decoder_start)
    last = document.masked_fill(~real, 0).max(1, keepdim=True).values
    source = _gathered(tokens, in_source, in_source_at, vocabulary.pad)
    target = _gathered(tokens, in_answer, in_text_at, vocabulary.pad)
    ones = torch.ones_like(tokens)
    return SourceTarget(
        source_BS=source,
        target_BM=_gathered(starts, is_first, in_text_at - 1, target),
        source_documents_BS=_gathered(document, in_source, in_source_at, last),
        target_documents_BM=_gathered(
            document, is_first, in_text_at - 1, _gathered(document, in_answer, in_text_at, last)
        ),
        source_real_BS=_gathered(ones, in_source, in_source_at, 0).bool(),
        target_real_BM=_gathered(
            ones, is_first, in_text_at - 1, _gathered(ones, in_answer, in_text_at, 0)
        ).bool(),
        target_scored_BM=_gathered(ones, is_target, in_text_at, 0).bool(),
    )


def _follows(is_assistant: Tensor, is_role: Tensor) -> Tensor:
    """Is the last role before each token that of the assistant?"""
    place = torch.arange(is_role.shape[1]).expand_as(is_role)
    last_role = torch.where(is_role, place, -1).cummax(1).values
    return is_assistant.gather(1, last_role.clamp(min=0)) & (last_role >= 0)


def _gathered(values: Tensor, is_taken: Tensor, index: Tensor, rest: int | Tensor) -> Tensor:
    """Some values of each row at new places, and `rest` elsewhere."""
    length = values.shape[1]
    if isinstance(rest, int):
        rest = torch.full_like(values, rest)
    whole = torch.cat([rest.expand_as(values), values[:, :1]], 1)  # and a column for the others
    return whole.scatter(1, torch.where(is_taken, index, length), values)[:, :length]
