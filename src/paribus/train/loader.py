"""The problems of each step, posed ahead of time while the last one is being learnt."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

from paribus.batch import TextBatch
from paribus.corpus import Split, TokenisedCorpus, slice_batch
from paribus.corpus.labelled_rows import LabelledCorpus
from paribus.objectives import Problem, pose_problem
from paribus.spec.corpus import gives_pairs
from paribus.spec.objectives import Preference, TextLabels, WordTags
from paribus.spec.run import Stage
from paribus.train.ranks import SINGLE_RANK, Ranks

VALID_SEED = 0  # held-out questions are the same in every run


@dataclass(frozen=True, eq=False)
class ProblemLoader:
    """What a stage asks, step by step: pure in (seeds, step)."""

    dataset: TokenisedCorpus
    stage: Stage
    has_encoder: bool
    separates_documents: bool
    ranks: Ranks = SINGLE_RANK
    pin_memory: bool = False  # in memory that a CUDA device fetches from by itself
    reads_on: bool = False  # do positions of a text go on from one document to the next?
    encodes_turns: bool = False  # does an encoder read each turn of a conversation alone?
    estimates: bool = False  # may answers stand for own responses, which are not drawn yet?

    @property
    def has_padding(self) -> bool:
        """May rows end in padding? Those of pairs do; running text fills its rows."""
        return any(gives_pairs(source) for source in self.dataset.spec.sources)

    @cached_property
    def labelled(self) -> LabelledCorpus | None:
        """The labels of the texts where a head is asked for them; None elsewhere."""
        if isinstance(self.stage.objective, TextLabels | WordTags):
            return LabelledCorpus(self.dataset, self.stage.objective)
        return None

    def text_at(self, split: Split, data_seed: int, k: int) -> TextBatch:
        """The text of global batch k, as the objective reads it."""
        training = self.stage.training
        source = self.labelled or self.dataset
        text = source.text_batch(split, data_seed, k, training.n_sequences, training.length)
        is_preference = isinstance(self.stage.objective, Preference)
        if self.estimates and is_preference and text.rejected_BT is None:
            return replace(text, rejected_BT=text.tokens_BT, rejected_real_BT=text.real_BT)
        return text

    def problems_at(self, k: int) -> list[Problem]:
        """This rank's micro-batches of global batch k."""
        training = self.stage.training
        whole = self.text_at("train", training.data_seed, k)
        own = self._own_slices(self._micro_batches(whole))
        return [self._pose(one, training.seed) for one in own]

    def prefetch(self, first: int, last: int) -> Iterator[list[Problem]]:
        """The problems of steps first to last, each made while the one before is worked on."""
        with ThreadPoolExecutor(1) as pool:
            if first < last:
                coming = pool.submit(self.problems_at, first)
            else:
                coming = None
            for k in range(first, last):
                assert coming is not None
                now = coming.result()
                if k + 1 < last:
                    coming = pool.submit(self.problems_at, k + 1)
                else:
                    coming = None
                yield now

    def validation_problems(self) -> Iterator[Problem]:
        """Problems over the valid split, the same at every visit and in batches of one size. Ranks
        that share out the weights also share out the problems.
        """
        for k in range(self.stage.training.valid_batches):
            text = self.text_at("valid", VALID_SEED, k)
            slices = self._micro_batches(text)
            if self.ranks.is_sharded:
                slices = self._own_slices(slices)
            yield from (self._pose(one, VALID_SEED) for one in slices)

    def _micro_batches(self, text: TextBatch) -> list[TextBatch]:
        n_sequences = self.stage.training.n_sequences
        size = n_sequences // self.ranks.n_micro_batches(self.stage.training)
        return [slice_batch(text, first, first + size) for first in range(0, n_sequences, size)]

    def _own_slices(self, slices: list[TextBatch]) -> list[TextBatch]:
        """This rank's share of the micro-batches of a global batch."""
        n_own = len(slices) // self.ranks.world_size
        first = self.ranks.rank * n_own
        return slices[first : first + n_own]

    def _pose(self, text: TextBatch, seed: int) -> Problem:
        problem = pose_problem(
            self.stage.objective,
            text,
            self.dataset.vocabulary,
            seed,
            self.has_encoder,
            self.separates_documents,
            self.encodes_turns,
        )
        if self.reads_on:
            inputs = problem.inputs
            problem = replace(
                problem, inputs=replace(inputs, layout=replace(inputs.layout, positions_BT=None))
            )
        if self.pin_memory:
            return problem.pin_memory()
        return problem
