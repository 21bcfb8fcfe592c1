"""One item of a task as an architecture is asked it: what is read, by whom, and what is scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paribus.batch import Vocabulary
from paribus.corpus import Tokenizer
from paribus.corpus.tasks import ChoiceItem
from paribus.corpus.tokenizer import byte_tokenizer
from paribus.errors import SpecError
from paribus.evaluate.tasks import TaskArm, task_arm
from paribus.evaluate.tasks.protocols import AskedItem, item_context
from paribus.evaluate.tasks.read_rows import read_tokens
from paribus.masks import Prefix, leaves, looks_ahead
from paribus.objectives.framing import lay_item
from paribus.spec import ResolvedArchitecture
from paribus.spec.objectives import CausalLM, MaskedLM, Objective, PrefixLM


@dataclass(frozen=True)
class TaskExample:
    """What a model reads and where it answers, as text; special tokens are written ‹so›."""

    encoder_reads: str | None
    reads: str
    n_prefix: int  # tokens of what is read that are the prefix
    scored: str
    n_rows: int  # more than one where each token is asked by itself


def task_example(arm: TaskArm, item: AskedItem) -> TaskExample:
    """An item with its right answer, as it is laid before a model."""
    context = arm.encode_contexts([item_context(item)])[0]
    if isinstance(item, ChoiceItem):
        answer = item.options[item.key]
    else:
        answer = item.references[0]
    target = arm.encode_targets([answer])[0]
    laid = lay_item(arm.layout, item.name, context, target)
    rows = list(read_tokens(arm.layout, laid))
    read, _, targets = rows[0]
    vocabulary = arm.layout.vocabulary
    encoder_reads = None
    if read.source:
        encoder_reads = tokens_as_text(read.source, arm.tokenizer, vocabulary)
    return TaskExample(
        encoder_reads=encoder_reads,
        reads=tokens_as_text(read.tokens, arm.tokenizer, vocabulary),
        n_prefix=read.prefix,
        scored=tokens_as_text(targets, arm.tokenizer, vocabulary),
        n_rows=len(rows),
    )


def tokens_as_text(tokens: Sequence[int], tokenizer: Tokenizer, vocabulary: Vocabulary) -> str:
    """Text as it was, with the names of special tokens between."""
    if vocabulary.own_special_tokens is None:
        names = {number: name for name, number in vocabulary.special_tokens.items()}
    else:
        names = {number: f"‹{name}›" for name, number in vocabulary.own_special_tokens.items()}
    pieces: list[str] = []
    text: list[int] = []
    for token in tokens:
        if token in names:
            pieces += [tokenizer.decode(text), names[token]]
            text = []
        else:
            text.append(token)
    return "".join([*pieces, tokenizer.decode(text)])


def architecture_arm(spec: ResolvedArchitecture) -> TaskArm:
    """How an architecture that was not trained would be asked, over bytes, after the objective
    that suits its mask.
    """
    spec = spec.model_copy(update={"n_vocab": 1 << 16})
    return task_arm(spec, usual_objective(spec), byte_tokenizer())


def usual_objective(spec: ResolvedArchitecture) -> Objective:
    """The objective that an architecture is mostly trained with."""
    if spec.encoder is not None:
        return PrefixLM()
    masks = spec.stack.masks
    if any(Prefix() in leaves(rule) for rule in masks):
        return PrefixLM()
    if looks_ahead(masks):
        return MaskedLM()
    return CausalLM()


def require_item(items: Sequence[AskedItem], name: str | None) -> AskedItem:
    """The item of this name, or the first."""
    if name is None:
        return items[0]
    for item in items:
        if item.name == name:
            return item
    raise SpecError(f"--item is {name!r}, which the task does not have; such as {items[0].name!r}")
