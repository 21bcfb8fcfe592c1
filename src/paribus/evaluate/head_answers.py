"""What a fine-tuned head answers: the label of each text, the tag of each word, and a run measured
by them on texts that were held out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from paribus.canonical import canonical_hash
from paribus.corpus.labelled_rows import LabelledCorpus, LabelledDocument
from paribus.corpus.splits import Split
from paribus.corpus.tasks import LabelItem, TagItem
from paribus.errors import RecordError, SpecError
from paribus.evaluate.label_answers import (
    LabelScores,
    label_answers,
    label_scores,
    label_text,
    tag_answers,
)
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.represent import n_truncated_tokens, represent, states_of_words_that_fit
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, load_checkpoint
from paribus.model.label_head import LabelHead, read_label_head
from paribus.record import CHECKPOINTS, current_environment, latest_checkpoint
from paribus.record.disk import file_sha256
from paribus.record.file_names import LABEL_HEAD_FILE, WEIGHTS_FILE
from paribus.record.task_answers import (
    TAG_SEPARATOR,
    TaskAnswer,
    TaskEvaluation,
    TaskHead,
    read_task_evaluation,
    require_unchanged_task_evaluation,
    task_evaluation_path,
    write_task_evaluation,
)
from paribus.runtime import cudnn_version
from paribus.spec.objectives import TextLabels, WordTags

CUT_WORD = "‹cut›"  # in place of the tag of a word that was not read
HEAD_PROTOCOL = {"kind": "head"}
N_NAME_DIGITS = 16


@dataclass(frozen=True, eq=False)
class Labeller:
    """A model and the head it was fine-tuned with."""

    asked_model: AskedModel
    head: LabelHead

    @property
    def names(self) -> tuple[str, ...]:
        """The labels in the order of the head."""
        return self.head.names


def load_labeller(checkpoint: LoadedCheckpoint, device: torch.device) -> Labeller:
    """The model and the head of a checkpoint; RecordError where it has no head."""
    head = read_label_head(checkpoint.folder, checkpoint.spec.d_model, device)
    if checkpoint.stage is None:
        raise RecordError(
            f"{checkpoint.folder} does not say how its head was trained; give the run instead"
        )
    asked_model = AskedModel(
        model=checkpoint.restore(device, kernel="masked" if device.type == "cuda" else "auto"),
        objective=checkpoint.stage.objective,
        tokenizer=checkpoint.tokenizer,
        vocabulary=checkpoint.vocabulary,
        window=min(checkpoint.stage.training.length, checkpoint.spec.max_length),
    )
    return Labeller(asked_model, head)


def answer_labels(
    labeller: Labeller, items: Sequence[LabelItem], names: Sequence[str]
) -> tuple[TaskAnswer, ...]:
    """The label that the head gives to each text; `names` are those of the labels by their
    numbers.
    """
    objective = labeller.asked_model.objective
    if not isinstance(objective, TextLabels):
        raise SpecError(
            f"the head was trained for {objective.kind!r}, which gives no labels of texts; use one"
            " that was trained for 'labels'"
        )
    texts = list(map(label_text, items))
    states_ND = represent(labeller.asked_model, texts, objective.pooling)
    nats_NK = _head_nats(labeller.head, states_ND)[:, _columns(labeller, names)]
    n_truncated = n_truncated_tokens(labeller.asked_model, texts)
    return label_answers(items, nats_NK, n_truncated)


def answer_tags(
    labeller: Labeller, items: Sequence[TagItem], names: Sequence[str]
) -> tuple[TaskAnswer, ...]:
    """The tag that the head gives to each word; a word that does not fit the window is wrong, and
    counted.
    """
    objective = labeller.asked_model.objective
    if not isinstance(objective, WordTags):
        raise SpecError(
            f"the head was trained for {objective.kind!r}, which gives no tags of words; use one"
            " that was trained for 'tags'"
        )
    columns = _columns(labeller, names)
    sentences = [item.words for item in items]
    chosen: list[list[str]] = []
    for states_ND in states_of_words_that_fit(labeller.asked_model, sentences):
        tags = _head_nats(labeller.head, states_ND)[:, columns].argmin(1)
        own = [str(names[int(tag)]) for tag in tags]
        for place in np.flatnonzero(np.isnan(states_ND).any(1)):
            own[place] = CUT_WORD
        chosen.append(own)
    n_truncated = n_truncated_tokens(labeller.asked_model, list(map(" ".join, sentences)))
    return tag_answers(items, names, chosen, n_truncated)


def corpus_texts(labelled: LabelledCorpus, split: Split) -> tuple[LabelItem, ...]:
    """The labelled texts of a split as items; a pair of texts is one text of two lines."""
    items = []
    for place, document in enumerate(labelled.documents(split)):
        item = LabelItem(
            name=f"{split}-{place}",
            document=_document_name(document),
            text=document.text,
            second=None,
            label=labelled.names.index(document.label),
        )
        items.append(item)
    return tuple(items)


def corpus_sentences(labelled: LabelledCorpus, split: Split) -> tuple[TagItem, ...]:
    """The sentences of a split with their tags as items."""
    items = []
    for place, document in enumerate(labelled.documents(split)):
        item = TagItem(
            name=f"{split}-{place}",
            document=_document_name(document),
            words=tuple(document.words),
            tags=tuple(map(labelled.names.index, document.tags)),
        )
        items.append(item)
    return tuple(items)


def _document_name(document: LabelledDocument) -> str:
    return canonical_hash(document.text)[:N_NAME_DIGITS]


def labelled_items(
    labelled: LabelledCorpus, split: Split
) -> tuple[LabelItem, ...] | tuple[TagItem, ...]:
    """The items of a split; SpecError where it has none."""
    if labelled.kind == "labels":
        items = corpus_texts(labelled, split)
    else:
        items = corpus_sentences(labelled, split)
    if not items:
        raise SpecError(
            f"split {split!r} has no labelled text; hold out a share such as corpus.{split} = 0.1"
        )
    return items


def head_weights(folder: Path) -> str:
    """The sha256 of the weights of a checkpoint together with those of its head."""
    return canonical_hash([file_sha256(folder / name) for name in (WEIGHTS_FILE, LABEL_HEAD_FILE)])


def evaluate_head(
    run_folder: Path, labelled: LabelledCorpus, device: torch.device, split: Split = "test"
) -> TaskEvaluation:
    """The answers of a run's head to the held-out texts of its own corpus, kept with the run;
    those there are already are read.
    """
    checkpoint = latest_checkpoint(run_folder / CHECKPOINTS).checkpoint
    if checkpoint is None:
        raise RecordError(f"{run_folder} has no complete checkpoint; train it further")
    items = labelled_items(labelled, split)
    weights = head_weights(checkpoint.folder)
    task = {
        "kind": labelled.kind,
        "corpus": labelled.dataset.fingerprint,
        "labels": list(labelled.names),
        "split": split,
    }
    fingerprint = canonical_hash([asdict(item) for item in items])
    path = task_evaluation_path(run_folder, task, HEAD_PROTOCOL, fingerprint)
    if path.exists():
        require_unchanged_task_evaluation(path)
        previous = read_task_evaluation(path)
        if previous.head.weights == weights:
            return previous
    labeller = load_labeller(load_checkpoint(checkpoint.folder), device)
    answers = answer_items(labeller, items, labelled.names)
    head = TaskHead(
        task=task,
        name=f"{labelled.kind} of the corpus",
        measure="accuracy",
        label="fine-tuned head",
        protocol=HEAD_PROTOCOL,
        component={},
        step=checkpoint.step,
        weights=weights,
        window=labeller.asked_model.window or 0,
        items=fingerprint,
        n_items=len(answers),
        n_truncated=sum(answer.n_truncated_tokens > 0 for answer in answers),
        n_left_out=0,
        text=labelled.dataset.fingerprint,
        floors=head_floors(answers, len(labelled.names)),
        summary=_summary(label_scores(answers)),
        environment=current_environment(
            torch.get_num_threads(), device.type, cudnn_version(device)
        ),
    )
    evaluation = TaskEvaluation(head, answers)
    write_task_evaluation(path, evaluation)
    return evaluation


def answer_items(
    labeller: Labeller, items: Sequence[LabelItem] | Sequence[TagItem], names: Sequence[str]
) -> tuple[TaskAnswer, ...]:
    """The label that the head gives to each text, or the tag to each word."""
    texts = [item for item in items if isinstance(item, LabelItem)]
    if texts:
        return answer_labels(labeller, texts, names)
    return answer_tags(labeller, [item for item in items if isinstance(item, TagItem)], names)


def head_floors(answers: Sequence[TaskAnswer], n_labels: int) -> dict[str, float]:
    """What guessing scores: any label, or always the one that most items have."""
    counts = Counter[int | str]()
    for answer in answers:
        if isinstance(answer.key, str):
            counts.update(answer.key.split(TAG_SEPARATOR))
        else:
            counts[answer.key] += 1
    return {"uniform": 1 / n_labels, "majority": max(counts.values()) / counts.total()}


def _summary(scores: LabelScores) -> dict[str, float]:
    return {"accuracy": scores.accuracy, "matthews": scores.matthews, "macro f1": scores.macro_f1}


def _columns(labeller: Labeller, names: Sequence[str]) -> list[int]:
    """Where each label stands in the head; SpecError where it has other labels."""
    if set(names) != set(labeller.names):
        raise SpecError(
            f"labels are {', '.join(map(repr, names))}, but the head was trained for"
            f" {', '.join(map(repr, labeller.names))}; ask it for those"
        )
    return [labeller.names.index(name) for name in names]


@torch.no_grad()
def _head_nats(head: LabelHead, states_ND: NDArray[np.float32]) -> NDArray[np.float64]:
    """-log p(label | state), [N, K]."""
    states = torch.from_numpy(states_ND).to(head.weight.device)
    return -head(states).double().log_softmax(-1).cpu().numpy()
