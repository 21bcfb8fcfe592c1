"""Is a prompt like a step of fine-tuning? Dai's similarities, query by query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from paribus.errors import UnsupportedError
from paribus.model import Transformer
from paribus.model.attention import MultiHeadAttention
from paribus.model.block import TransformerBlock
from paribus.objectives import Problem, target_nats
from paribus.objectives.batching import batch_problems
from paribus.objectives.framing import LaidItem, item_problems
from paribus.probe import descent_similarity as similarity
from paribus.probe.descent_items import DescentItem, EpisodeTexts
from paribus.probe.problem_batches import scored_states
from paribus.probe.subject import ProbedModel
from paribus.record.probe_rows import ProbeRow
from paribus.spec import Latent, ResolvedArchitecture
from paribus.spec.probe_variants import RANK_CORRELATION, RECALL, UNTRAINED
from paribus.spec.probes import DescentProbe
from paribus.watcher import Watcher

STEPS = (0.003, 0.01, 0.03, 0.1)  # lengths of an update, over the norm of what it changes
TUNED = (".key.weight", ".value.weight")
Weights = Mapping[str, Tensor]


def require_projections(spec: ResolvedArchitecture) -> None:
    """UnsupportedError where attention has no key and value projections of its own, or shares them
    with a source.
    """
    if any(block.cross_form == "merged" for block in spec.stack.layers):
        raise UnsupportedError(
            "the probe 'descent' tunes the key and value projections of one sequence, but where"
            " cross_form is 'merged' a source has the same; use it with 'separate'"
        )
    if any(isinstance(block.attention, Latent) for block in spec.stack.layers):
        raise UnsupportedError(
            "the probe 'descent' tunes the key and value projections, but latent attention has"
            " none of its own; use it with another attention"
        )


def probe_descent(
    subject: ProbedModel, texts: EpisodeTexts, spec: DescentProbe, watcher: Watcher
) -> Iterator[ProbeRow]:
    """Similarities by layer, and Rec2FTP, of the model and of what it was before training."""
    require_projections(subject.spec)
    subjects = {"": subject}
    if spec.start:
        subjects[UNTRAINED] = subject.at_start()
    for variant, own in subjects.items():
        tuner = _Tuner(own)
        step = _best_step(tuner, texts.others, watcher)
        readings = []
        for item in texts.items:
            readings.append(tuner.readings(item, step))
            watcher.advance(1)
        for row in _rows(readings, own, spec.seed):
            yield replace(row, variant=variant)


def n_tunings(texts: EpisodeTexts, spec: DescentProbe) -> int:
    """How many queries a model is tuned for, in all."""
    return (len(texts.items) + len(texts.others)) * (1 + spec.start)


@dataclass(frozen=True, eq=False)
class _Reading:
    """What the position that answers a query does, by layer, and whether its answer is right."""

    outputs_LD: Tensor
    query_scores_LHS: Tensor
    demonstration_weights_LS: Tensor | None
    queries_LD: Tensor | None
    is_right: bool


@dataclass(frozen=True, eq=False)
class _Readings:
    """One query, read three times, and the queries of the tokens it was tuned on, [L, S, D]."""

    zero_shot: _Reading
    in_context: _Reading
    tuned: _Reading
    training_queries_LSD: Tensor | None


class _Tuner:
    """Reads queries with a model as it is, and after a step on their demonstrations."""

    def __init__(self, subject: ProbedModel):
        self.subject, self.layout = subject, subject.layout
        self.branch = "cross" if subject.layout.framing == "apart" else "attention"
        self.weights: dict[str, Tensor] = {}
        for name, value in subject.model.named_parameters():
            if name.endswith(TUNED):
                self.weights[name] = value

    def readings(self, item: DescentItem, step: float) -> _Readings:
        zero_shot, in_context = self._read(item.zero_shot, item), self._read(item.in_context, item)
        queries = None
        if self.branch == "attention" and item.is_tuned_on_its_prompt:
            queries = self._training_queries(item)
        with _temporary_update(self.weights, self.update(item), step):
            tuned = self._read(item.zero_shot, item)
        return _Readings(zero_shot, in_context, tuned, queries)

    def update(self, item: DescentItem) -> Weights:
        """Minus the gradient of the mean loss of the demonstrations, each read alone."""
        problems = [problem for one in item.training for problem in item_problems(self.layout, one)]
        problem = self._batch(problems)
        is_scored_BM = problem.weights_BM > 0
        states_MD = scored_states(self.subject.model, problem)[is_scored_BM]
        logits_MV = self.subject.model.logits(states_MD)
        loss = target_nats(logits_MV, problem.targets_BM[is_scored_BM]).mean()
        gradients = torch.autograd.grad(loss, list(self.weights.values()), materialize_grads=True)
        return {name: -one for name, one in zip(self.weights, gradients, strict=True)}

    @torch.no_grad()
    def is_right(self, laid: LaidItem) -> bool:
        (problem,) = item_problems(self.layout, laid)
        problem = self._batch([problem])
        return self._is_right(problem, self.subject.model.hidden_states(problem.inputs).states_BTD)

    @torch.no_grad()
    def _read(self, laid: LaidItem, item: DescentItem) -> _Reading:
        (problem,) = item_problems(self.layout, laid)
        problem = self._batch([problem])
        observer = _AnswerObserver(self.branch, _answering_position(problem), len(laid.inputs))
        states_BTD = self.subject.model.hidden_states(problem.inputs, observer=observer).states_BTD
        scores_LHS = torch.stack(observer.scores)
        weights_LS = torch.stack(observer.weights)
        is_in_context = laid is item.in_context
        shown_LS = weights_LS[:, item.n_before : -item.n_query] if is_in_context else None
        queries_LD = None
        if self.branch == "attention":
            queries_LD = _queries(self.subject.model, torch.stack(observer.inputs)[:, None])[:, 0]
        return _Reading(
            outputs_LD=torch.stack(observer.outputs),
            query_scores_LHS=scores_LHS[..., -item.n_query :],
            demonstration_weights_LS=shown_LS,
            queries_LD=queries_LD,
            is_right=self._is_right(problem, states_BTD),
        )

    @torch.no_grad()
    def _training_queries(self, item: DescentItem) -> Tensor:
        """The queries of the tokens of the demonstrations, each read alone, [L, S, D]."""
        parts = []
        for one in item.training:
            (problem,) = item_problems(self.layout, one)
            problem = self._batch([problem])
            last = problem.inputs.tokens_BT.shape[1]
            observer = _AnswerObserver(self.branch, slice(item.n_before, last), last)
            self.subject.model.hidden_states(problem.inputs, observer=observer)
            parts.append(_queries(self.subject.model, torch.stack(observer.inputs)))
        return torch.cat(parts, 1)

    def _batch(self, problems: Sequence[Problem]) -> Problem:
        return batch_problems(problems, self.layout.vocabulary.pad).to(self.subject.device)

    def _is_right(self, problem: Problem, states_BTD: Tensor) -> bool:
        position = _answering_position(problem)
        logits_V = self.subject.model.logits(states_BTD[:, position])[0]
        first = int((problem.weights_BM[0] > 0).nonzero()[0])
        return int(logits_V.argmax()) == int(problem.targets_BM[0, first])


def _answering_position(problem: Problem) -> int:
    """Where the first token of the answer is predicted."""
    first = int((problem.weights_BM[0] > 0).nonzero()[0])
    return int(problem.scored_positions_BM[0, first])


def _queries(model: Transformer, inputs_LSD: Tensor) -> Tensor:
    """The query projections of what self-attention reads, [L, S, D]."""
    projected = []
    for block, inputs_SD in zip(model.stack.layers, inputs_LSD, strict=True):
        assert isinstance(block, TransformerBlock)
        assert isinstance(block.attention, MultiHeadAttention)
        projected.append(block.attention.query(inputs_SD))
    return torch.stack(projected)


@contextmanager
def _temporary_update(weights: Weights, update: Weights, step: float) -> Iterator[None]:
    """Weights moved along an update, by a share of their norm, while it lasts."""
    before = {name: value.detach().clone() for name, value in weights.items()}
    length = _norm(update)
    size = _norm(before) / length if length else 0.0
    with torch.no_grad():
        for name, value in weights.items():
            value.add_(update[name], alpha=step * size)
    try:
        yield
    finally:
        with torch.no_grad():
            for name, value in weights.items():
                value.copy_(before[name])


def _norm(weights: Weights) -> float:
    return sum(value.double().square().sum().item() for value in weights.values()) ** 0.5


def _best_step(tuner: _Tuner, others: Sequence[DescentItem], watcher: Watcher) -> float:
    """The length of a step after which most other queries are right, the shortest of equals: the
    choice most favourable to tuning.
    """
    n_right = dict.fromkeys(STEPS, 0)
    for item in others:
        update = tuner.update(item)
        for step in STEPS:
            with _temporary_update(tuner.weights, update, step):
                n_right[step] += tuner.is_right(item.zero_shot)
        watcher.advance(1)
    return max(STEPS, key=lambda step: n_right[step])


@dataclass
class _AnswerObserver:
    """Keeps what one position, or some, do in every layer of the main stack."""

    branch: str
    position: int | slice
    n_inputs: int  # keys that are of the question
    inputs: list[Tensor] = field(default_factory=list)
    scores: list[Tensor] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)

    def wants(self, name: str, layer: int) -> bool:
        own = {f"stack.{self.branch}_{what}" for what in ("scores", "weights", "output")}
        return name in own | {"stack.attention_input"}

    def see(self, name: str, layer: int, value: Tensor) -> None:
        match name.rpartition("_")[2]:
            case "input":
                self.inputs.append(value[0, self.position].float())
            case "scores":
                self.scores.append(value[0, :, self.position, : self.n_inputs])
            case "weights":
                self.weights.append(value[0, :, self.position, : self.n_inputs].sum(0))
            case _:
                self.outputs.append(value[0, self.position].float())


def _rows(readings: Sequence[_Readings], subject: ProbedModel, seed: int) -> Iterator[ProbeRow]:
    zero_shot, in_context, tuned = (
        torch.stack([getattr(one, name).outputs_LD for one in readings])
        for name in ("zero_shot", "in_context", "tuned")
    )
    maps = [
        torch.stack([getattr(one, name).query_scores_LHS for one in readings])
        for name in ("zero_shot", "in_context", "tuned")
    ]
    found = {
        "SimAOU": similarity.attention_output_similarity(zero_shot, in_context, tuned),
        "SimAOU, random update": similarity.random_update_similarity(zero_shot, in_context, seed),
        "SimAM": similarity.attention_map_similarity(maps[1], maps[2]),
        "SimAM, before tuning": similarity.attention_map_similarity(maps[1], maps[0]),
        **_rank_correlations(readings, seed),
    }
    branch = "cross" if subject.layout.framing == "apart" else "attention"
    row = partial(ProbeRow, probe="descent", n=len(readings))
    for quantity, values_L in found.items():
        for layer, value in enumerate(values_L.tolist()):
            yield row(quantity=quantity, value=value, stack="stack", branch=branch, layer=layer)
    yield from _answer_rows(readings, row)


def _rank_correlations(readings: Sequence[_Readings], seed: int) -> dict[str, Tensor]:
    """Kendall's tau, where the tokens of the prompt are those that were tuned on."""
    shown, scores = [], []
    for one in readings:
        weights_LS, queries_LD = one.in_context.demonstration_weights_LS, one.tuned.queries_LD
        if one.training_queries_LSD is None or weights_LS is None or queries_LD is None:
            return {}
        shown.append(weights_LS.cpu())
        own = similarity.training_token_scores(queries_LD[None], one.training_queries_LSD)
        scores.append(own[0].cpu())
    in_context_NLS, tuned_NLS = torch.stack(shown), torch.stack(scores)
    by_lot = similarity.random_rank_correlation(in_context_NLS, seed)
    return {
        RANK_CORRELATION: similarity.attention_rank_correlation(in_context_NLS, tuned_NLS),
        f"{RANK_CORRELATION}, random attention": by_lot,
    }


def _answer_rows(readings: Sequence[_Readings], row: partial[ProbeRow]) -> Iterator[ProbeRow]:
    zero_shot, in_context, tuned = (
        torch.tensor([getattr(one, name).is_right for one in readings])
        for name in ("zero_shot", "in_context", "tuned")
    )
    for name, right_N in (("zero-shot", zero_shot), ("in context", in_context), ("tuned", tuned)):
        yield row(quantity=f"accuracy, {name}", value=right_N.double().mean().item())
    recall = similarity.recall_of_tuned(zero_shot, in_context, tuned)
    if recall is not None:
        n_corrected = int((~zero_shot & tuned).sum())
        yield replace(row(quantity=RECALL, value=recall), n=n_corrected)
