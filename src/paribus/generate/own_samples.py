"""A model's own responses to the prompts of an invented language, the best and the worst of each a
pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from paribus.corpus import Split, TokenisedCorpus, document_turns, turn_answer
from paribus.corpus.conversations import prompt_tokens, readable_turns
from paribus.corpus.order import shuffled_indices
from paribus.corpus.own_pairs import PAIR_SPLITS, OwnPair, OwnPairs, reward_of
from paribus.errors import SpecError
from paribus.generate.answers import GeneratedAnswer, generate_answers
from paribus.generate.sampling import Sampling
from paribus.model import Transformer
from paribus.objectives.framing import ItemLayout, item_layout
from paribus.runtime import derive_seed
from paribus.spec.languages import Language
from paribus.spec.objectives import MixtureComponent, OwnSamples, Preference, Seq2Seq
from paribus.spec.run import Stage

PROMPTS_AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class _Sampler:
    """A model, whom it answers, and how its responses are drawn."""

    model: Transformer
    layout: ItemLayout
    dataset: TokenisedCorpus
    samples: OwnSamples
    seed: int

    def pairs(self, split: Split, n_pairs: int) -> Iterator[OwnPair | None]:
        """Pairs until there are enough, and None for each prompt that gives none."""
        n_documents = self.dataset.readers[split][0].shard.n_documents
        key = derive_seed(self.seed, "own samples", split)
        order = shuffled_indices(np.arange(n_documents), n_documents, key).tolist()
        n_found = 0
        for first in range(0, n_documents, PROMPTS_AT_ONCE):
            for pair in self._block_pairs(split, order[first : first + PROMPTS_AT_ONCE]):
                if n_found == n_pairs:
                    return
                n_found += pair is not None
                yield pair

    def _block_pairs(self, split: Split, documents: list[int]) -> Iterator[OwnPair | None]:
        dataset, samples = self.dataset, self.samples
        contexts = []
        for document in documents:
            turns = document_turns(dataset, split, 0, document)
            prompt = prompt_tokens(turns, dataset.tokenizer, dataset.vocabulary)
            contexts += [prompt] * samples.n_samples
        seed = derive_seed(self.seed, "own samples", split, documents[0])
        sampling = Sampling(samples.n_tokens, samples.temperature, seed)
        answers = generate_answers(self.model, self.layout, contexts, sampling)
        for place, document in enumerate(documents):
            own = answers[place * samples.n_samples : (place + 1) * samples.n_samples]
            yield self._ranked_pair(split, document, [one for one in own if one.is_ended])

    def _ranked_pair(
        self, split: Split, document: int, answers: list[GeneratedAnswer]
    ) -> OwnPair | None:
        """The best response and the worst, the first of equals; None where all are as good."""
        dataset = self.dataset
        turns = document_turns(dataset, split, 0, document)
        (language,) = dataset.spec.sources
        assert isinstance(language, Language)
        right = turn_answer(language, [turn.content for turn in turns if turn.role == "user"])
        texts = [dataset.decode(answer.tokens) for answer in answers]
        rewards = [reward_of(text, right) for text in texts]
        if len(set(rewards)) < 2:
            return None
        best, worst = rewards.index(max(rewards)), rewards.index(min(rewards))
        return OwnPair(
            split=split,
            document=document,
            chosen=answers[best].tokens,
            rejected=answers[worst].tokens,
            rewards=(rewards[best], rewards[worst]),
            prompt=readable_turns(turns),
            chosen_text=texts[best],
            rejected_text=texts[worst],
        )


@torch.no_grad()
def draw_own_pairs(model: Transformer, dataset: TokenisedCorpus, stage: Stage) -> OwnPairs:
    """As many pairs as the stage asks for, and in proportion for validation.

    SpecError where the prompts give too few: a model that is always right, or never, has nothing
    to choose from.
    """
    objective, training = stage.objective, stage.training
    assert isinstance(objective, Preference)
    assert objective.own_samples is not None
    window = min(training.length, model.spec.max_length)
    component = MixtureComponent(objective=Seq2Seq())
    layout = item_layout(component, model.spec, dataset.vocabulary, window)
    sampler = _Sampler(
        model=model,
        layout=replace(layout, in_turns=True),
        dataset=dataset,
        samples=objective.own_samples,
        seed=training.seed,
    )
    pairs: list[OwnPair] = []
    n_ties = 0
    for split in PAIR_SPLITS:
        n_wanted = _n_pairs(objective.own_samples, dataset, split)
        drawn = list(sampler.pairs(split, n_wanted))
        found = [pair for pair in drawn if pair is not None]
        if len(found) < n_wanted:
            raise SpecError(
                f"objective.own_samples asks for {n_wanted} pairs of {split} prompts, but"
                f" {len(drawn)} prompts gave {len(found)} whose rewards differ; ask for fewer, draw"
                " more samples or at a higher temperature, or train the stage before for longer"
            )
        if split == "train":
            n_ties = len(drawn) - len(found)
        pairs += found
    return OwnPairs(tuple(pairs), n_ties)


def _n_pairs(samples: OwnSamples, dataset: TokenisedCorpus, split: Split) -> int:
    """Pairs of a split: those of validation are in proportion to what is held out."""
    if split == "train":
        return samples.n_pairs
    share = dataset.spec.valid / (1 - dataset.spec.valid - dataset.spec.test)
    return max(1, math.ceil(samples.n_pairs * share))
