"""Prompts of demonstrations, the same queries alone, and each demonstration alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paribus.canonical import canonical_hash
from paribus.corpus import TokenisedCorpus
from paribus.corpus.languages.episodes import read_episode
from paribus.corpus.languages.questions import AnsweredQuestion
from paribus.errors import SpecError, UnsupportedError
from paribus.objectives.framing import Ids, LaidItem
from paribus.probe.demonstrations import new_questions, with_demonstrations
from paribus.probe.descent_similarity import MIN_EXAMPLES
from paribus.probe.item_answers import ItemReader
from paribus.probe.item_encoder import ItemEncoder
from paribus.probe.subject import ProbedModel
from paribus.probe.texts import ProbeText, ProbeTexts
from paribus.spec.languages import ClassificationLanguage, EpisodeKind
from paribus.spec.probes import DescentProbe


@dataclass(frozen=True)
class DescentItem:
    """One query: after its demonstrations, alone, and each demonstration alone."""

    in_context: LaidItem
    zero_shot: LaidItem
    training: tuple[LaidItem, ...]

    @property
    def n_query(self) -> int:
        """Tokens of the query: what both prompts end with."""
        n_same = 0
        pairs = zip(reversed(self.in_context.inputs), reversed(self.zero_shot.inputs), strict=False)
        for left, right in pairs:
            if left != right:
                break
            n_same += 1
        return n_same

    @property
    def n_before(self) -> int:
        """Tokens that stand before all else."""
        return len(self.zero_shot.inputs) - self.n_query

    @property
    def demonstration_tokens(self) -> Ids:
        """What the prompt has before the query."""
        return self.in_context.inputs[self.n_before : -self.n_query]

    @property
    def training_tokens(self) -> Ids:
        """What is read in tuning, one demonstration after another."""
        tokens: Ids = ()
        for one in self.training:
            tokens += (*one.inputs[self.n_before :], *one.target)
        return tokens

    @property
    def is_tuned_on_its_prompt(self) -> bool:
        """Are the tokens of the prompt those that are tuned on, so that ranks can be compared?"""
        return self.training_tokens == self.demonstration_tokens


@dataclass(frozen=True)
class EpisodeTexts(ProbeTexts):
    """Prompts of one length, and the items that they are made of. As many others, of other
    functions, fit the length of a step.
    """

    items: tuple[DescentItem, ...] = ()
    others: tuple[DescentItem, ...] = ()


@dataclass(frozen=True)
class EpisodePrompts:
    """New questions of a language, and the prompts that those of them are which are not others."""

    language: ClassificationLanguage
    questions: tuple[AnsweredQuestion, ...]
    n_demonstrations: int
    texts: ProbeTexts


def episode_prompts(
    encode: Callable[[str], Ids], corpus: TokenisedCorpus, spec: DescentProbe, length: int
) -> EpisodePrompts:
    """New episodes of the language of a corpus, with as many demonstrations as fit."""
    language = _classification(corpus)
    if spec.n_texts < MIN_EXAMPLES:
        raise SpecError(
            f"descent.n_texts is {spec.n_texts}, too few query examples for a mean; use"
            f" {MIN_EXAMPLES} or more"
        )
    questions = new_questions(language, spec.n_texts + spec.n_others)
    n_demonstrations = _n_that_fit(encode, language, questions[0], length)
    texts = []
    for question in questions[: spec.n_texts]:
        whole = with_demonstrations(language, question, n_demonstrations)
        name = canonical_hash(whole.source)[:16]
        texts.append(ProbeText(name, language.kind, encode(whole.question)))
    return EpisodePrompts(language, tuple(questions), n_demonstrations, ProbeTexts(tuple(texts)))


def descent_items(encoder: ItemEncoder, prompts: EpisodePrompts) -> tuple[DescentItem, ...]:
    """All questions laid for a model, those of the prompts first."""
    encoder.require_symbols([one.question for one in prompts.questions])
    items = []
    for question in prompts.questions:
        items.append(_item(encoder, prompts.language, question, prompts.n_demonstrations))
    return tuple(items)


def descent_texts(
    subject: ProbedModel, corpus: TokenisedCorpus, spec: DescentProbe, length: int
) -> EpisodeTexts:
    """Prompts with the items that they are made of."""
    prompts = episode_prompts(subject.encode, corpus, spec, length)
    reader = ItemReader.of(subject.checkpoint, subject.model)
    items = descent_items(reader.encoder, prompts)
    return EpisodeTexts(prompts.texts.texts, items[: spec.n_texts], items[spec.n_texts :])


def _classification(corpus: TokenisedCorpus) -> ClassificationLanguage:
    for source in corpus.spec.sources:
        if isinstance(source, ClassificationLanguage):
            return source
    kinds = ", ".join(source.kind for source in corpus.spec.sources)
    raise UnsupportedError(
        "the probe 'descent' asks for labels after examples, but the corpus has no source"
        f" 'classification' (it has {kinds}); use a run that was trained on one"
    )


def _n_that_fit(
    encode: Callable[[str], Ids], language: EpisodeKind, question: AnsweredQuestion, length: int
) -> int:
    """How many demonstrations leave room for an answer and its end."""
    for number in range(language.max_length, 0, -1):
        short = with_demonstrations(language, question, number)
        if len(encode(short.question)) + 2 <= length:
            return number
    raise SpecError(f"length is {length}, in which no demonstration fits; use a longer one")


def _item(
    encoder: ItemEncoder, language: EpisodeKind, question: AnsweredQuestion, n_demonstrations: int
) -> DescentItem:
    whole = with_demonstrations(language, question, n_demonstrations)
    alone = with_demonstrations(language, question, 0)
    episode = read_episode(language, whole.source)
    training = []
    for inputs, value in zip(episode.inputs, episode.values, strict=True):
        training.append(encoder.lay(alone.question.replace(alone.source, inputs), value))
    return DescentItem(
        in_context=encoder.lay(whole.question, question.answer),
        zero_shot=encoder.lay(alone.question, question.answer),
        training=tuple(training),
    )
