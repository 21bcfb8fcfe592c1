"""Beam search: the likeliest answers as a whole, over anything that says what may come next.

An answer's score is its log-probability over its length to the power of the length penalty. A
search ends when no running beam, at its present length, is better than the worst of the finished
ones; this is `early_stopping=False` of transformers, whose beams these are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from paribus.errors import SpecError
from paribus.generate.answer_stream import AnswerStream, can_cache
from paribus.generate.choosing import penalise_repetition
from paribus.generate.requests import barred_tokens, tokens_read
from paribus.generate.sampling import next_logits, require_generation
from paribus.generate.settings import Sampling
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout

# Log-probabilities [K, V] of what follows each row of tokens [K, T]. The second argument is the
# row of the call before that each row continues, [K], so that a cache can follow; None at first.
NextLogprobs = Callable[[Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class BeamSearch:
    """How beams are searched: how many, how long, and what ends one."""

    n_beams: int
    n_tokens: int
    end_tokens: Ids
    length_penalty: float = 1.0

    def score(self, logprob: float, n_tokens: int) -> float:
        """What an answer is judged by, with the token that ends it."""
        return logprob / n_tokens**self.length_penalty


@dataclass(frozen=True)
class Beam:
    """An answer with what ends it, and its score."""

    tokens: Ids
    score: float


@dataclass(frozen=True, eq=False)
class _Candidates:
    """The likeliest of all continuations by one token, the best first."""

    logprobs_C: Tensor
    parents_C: Tensor
    tokens_C: Tensor
    is_end_C: Tensor


@torch.no_grad()
def search_beams(
    next_logprobs: NextLogprobs, search: BeamSearch, device: torch.device | str = "cpu"
) -> tuple[Beam, ...]:
    """The best answers that a search finds, the best first."""
    ends = torch.tensor(search.end_tokens, dtype=torch.int64, device=device)
    tokens_KT = torch.zeros(1, 0, dtype=torch.int64, device=device)
    logprobs_K = torch.zeros(1, dtype=torch.float64, device=device)
    parents_K: Tensor | None = None
    finished: list[Beam] = []
    for n_said in range(1, search.n_tokens + 1):
        following_KV = next_logprobs(tokens_KT, parents_K)
        candidates = _candidates(logprobs_K[:, None] + following_KV.double(), search, ends)
        if n_said == search.n_tokens:
            candidates.is_end_C.fill_(True)
        finished += _finished_beams(candidates, tokens_KT, search)
        finished = sorted(finished, key=lambda beam: -beam.score)[: search.n_beams]
        running = (~candidates.is_end_C).nonzero()[: search.n_beams, 0]
        if len(running) == 0:
            break
        parents_K, logprobs_K = candidates.parents_C[running], candidates.logprobs_C[running]
        tokens_KT = torch.cat([tokens_KT[parents_K], candidates.tokens_C[running, None]], dim=1)
        best = search.score(logprobs_K[0].item(), n_said)
        if len(finished) == search.n_beams and best <= finished[-1].score:
            break
    return tuple(finished)


def _candidates(logprobs_KV: Tensor, search: BeamSearch, ends: Tensor) -> _Candidates:
    """So many that enough go on, whichever end; those that may not be said are none."""
    n_candidates = search.n_beams * max(2, 1 + len(search.end_tokens))
    flat = logprobs_KV.flatten()
    logprobs_C, places_C = flat.topk(min(n_candidates, len(flat)))
    is_sayable_C = logprobs_C > float("-inf")
    logprobs_C, places_C = logprobs_C[is_sayable_C], places_C[is_sayable_C]
    n_vocab = logprobs_KV.shape[1]
    tokens_C = places_C % n_vocab
    return _Candidates(
        logprobs_C=logprobs_C,
        parents_C=places_C // n_vocab,
        tokens_C=tokens_C,
        is_end_C=torch.isin(tokens_C, ends),
    )


def _finished_beams(candidates: _Candidates, tokens_KT: Tensor, search: BeamSearch) -> list[Beam]:
    """Beams that end now; only a candidate as good as a running beam may."""
    beams = []
    n_said = tokens_KT.shape[1] + 1
    for rank in range(min(search.n_beams, len(candidates.tokens_C))):
        if candidates.is_end_C[rank]:
            before = tokens_KT[candidates.parents_C[rank]].tolist()
            tokens = (*before, int(candidates.tokens_C[rank]))
            beams.append(Beam(tokens, search.score(candidates.logprobs_C[rank].item(), n_said)))
    return beams


def context_beams(
    model: Transformer, layout: ItemLayout, inputs: Ids, sampling: Sampling
) -> tuple[Beam, ...]:
    """The best answers to one context as it is laid, `n_samples` of them."""
    device = model.embedding.weight.device
    inputs_1T = torch.tensor([inputs], device=device)
    require_generation(model, layout, inputs_1T, sampling.n_tokens, None)
    search = BeamSearch(
        n_beams=sampling.n_beams,
        n_tokens=min(sampling.n_tokens, _room(layout, len(inputs))),
        end_tokens=layout.end_tokens,
        length_penalty=sampling.length_penalty,
    )
    beams = search_beams(_ModelLogprobs(model, layout, inputs_1T, sampling), search, device)
    if len(beams) < sampling.n_samples:
        raise SpecError(
            f"n_samples is {sampling.n_samples}, but there are only {len(beams)} answers of"
            f" {search.n_tokens} tokens; use at most {len(beams)}, or more tokens"
        )
    return beams[: sampling.n_samples]


def _room(layout: ItemLayout, n_inputs: int) -> int:
    """How many tokens the window lets an answer have."""
    n_read = len(layout.opening)
    match layout.framing:
        case "apart":
            n_read += 1
        case "in place":
            n_read += n_inputs + 1
        case _:
            n_read += n_inputs
    return layout.window - n_read + 1


class _ModelLogprobs:
    """What a model says may follow: over a cache where its mask lets keys stay valid, else each
    time from everything before it.
    """

    def __init__(
        self, model: Transformer, layout: ItemLayout, inputs_1T: Tensor, sampling: Sampling
    ):
        self.model, self.layout, self.inputs_1T = model, layout, inputs_1T
        device, n_vocab = inputs_1T.device, model.spec.n_vocab
        self.opening = torch.tensor([layout.opening], dtype=torch.int64, device=device)
        self.barred_V = barred_tokens(layout, n_vocab).to(device)
        self.seen_1V = tokens_read(layout, inputs_1T, None, n_vocab)
        self.penalty_1 = None
        if sampling.repetition_penalty != 1:
            self.penalty_1 = torch.tensor([float(sampling.repetition_penalty)], device=device)
        self.stream: AnswerStream | None = None
        if can_cache(model, layout):
            self.stream = AnswerStream(model, layout, inputs_1T, None, sampling.n_tokens)

    def __call__(self, tokens_KT: Tensor, parents_K: Tensor | None) -> Tensor:
        n_rows = len(tokens_KT)
        logits_KV = self._logits(tokens_KT, parents_K)
        logprobs_KV = logits_KV.log_softmax(-1)
        if self.penalty_1 is not None:
            seen_KV = self.seen_1V.expand(n_rows, -1).scatter(1, tokens_KT, True)
            logprobs_KV = penalise_repetition(logprobs_KV, seen_KV, self.penalty_1)
        return logprobs_KV.masked_fill(self.barred_V, float("-inf"))

    def _logits(self, tokens_KT: Tensor, parents_K: Tensor | None) -> Tensor:
        if self.stream is not None:
            return self.stream.logits(tokens_KT, parents_K)
        n_rows = len(tokens_KT)
        inputs_KT = self.inputs_1T.expand(n_rows, -1)
        answer_KT = torch.cat([self.opening.view(1, -1).expand(n_rows, -1), tokens_KT], 1)
        return next_logits(self.model, self.layout, inputs_KT, None, answer_KT)
