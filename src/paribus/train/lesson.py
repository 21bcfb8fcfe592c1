"""The problems of each step, posed ahead of time while the last one is being learnt."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from paribus.batch import Reading
from paribus.corpus import Built, part
from paribus.objectives import Problem, pose
from paribus.spec.corpus import gives_pairs
from paribus.spec.run import Stage
from paribus.train.ranks import ALONE, Ranks

VALID_SEED = 0  # held-out questions are the same in every run


@dataclass(frozen=True, eq=False)
class Lessons:
    """What a stage asks, step by step: pure in (seeds, step)."""

    built: Built
    stage: Stage
    has_encoder: bool
    documents: bool
    ranks: Ranks = ALONE
    pinned: bool = False  # in memory that a CUDA device fetches from by itself

    @property
    def pads(self) -> bool:
        """May rows end in padding? Those of pairs do; running text fills its rows."""
        return any(gives_pairs(source) for source in self.built.corpus.sources)

    def at(self, k: int) -> list[Problem]:
        """This rank's parts of global batch k."""
        training = self.stage.training
        whole = self.built.reading("train", training.data_seed, k, training.n_sequences, training.length)
        slices = self._slices(whole)
        own = len(slices) // self.ranks.size
        first = self.ranks.number * own
        return [self._posed(one, training.seed) for one in slices[first : first + own]]

    def ahead(self, first: int, last: int) -> Iterator[list[Problem]]:
        """The problems of steps first to last, each made while the one before is worked on."""
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(self.at, first) if first < last else None
            for k in range(first, last):
                assert coming is not None
                now = coming.result()
                coming = pool.submit(self.at, k + 1) if k + 1 < last else None
                yield now

    def held_out(self) -> Iterator[Problem]:
        """Questions over the valid split, the same at every visit and in parts of the same size."""
        training = self.stage.training
        for k in range(training.valid_batches):
            text = self.built.reading("valid", VALID_SEED, k, training.n_sequences, training.length)
            yield from (self._posed(one, VALID_SEED) for one in self._slices(text))

    def _slices(self, whole: Reading) -> list[Reading]:
        n_sequences = self.stage.training.n_sequences
        size = n_sequences // self.ranks.n_parts(self.stage.training)
        return [part(whole, first, first + size) for first in range(0, n_sequences, size)]

    def _posed(self, text: Reading, seed: int) -> Problem:
        posed = pose(self.stage.objective, text, self.built.vocabulary, seed, self.has_encoder, self.documents)
        return posed.pinned() if self.pinned else posed
