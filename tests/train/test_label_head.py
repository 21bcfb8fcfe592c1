"""Fine-tuning with a head: it equals a plain PyTorch loop, learns what can be learnt and nothing
else, and follows the rules of every other stage.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from labelled_texts import labels_run, run_texts, tags_run, write_labelled, write_tagged
from safetensors.torch import load_file

from paribus.batch import Batch
from paribus.corpus.documents import Document
from paribus.corpus.labelled_rows import LabelledCorpus
from paribus.corpus.splits import piece_digests, split_of
from paribus.corpus.tasks import TagItem
from paribus.errors import RecordError, SpecError
from paribus.evaluate.head_answers import (
    answer_labels,
    answer_tags,
    corpus_texts,
    evaluate_head,
    load_labeller,
)
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.model import build, restore
from paribus.model.label_head import build_label_head, read_label_head
from paribus.objectives.answering import answering_component
from paribus.record import latest_checkpoint, read_task_evaluation
from paribus.spec import resolve
from paribus.spec.objectives import TextLabels, WordTags
from paribus.spec.price import count_parameters, stage_parameters
from paribus.spec.run import RunSpec
from paribus.train.chain import train_chain
from paribus.train.learner import Learner
from paribus.train.loader import ProblemLoader
from paribus.train.loop import require_trainable
from paribus.train.parent import Texts
from paribus.train.schedule import learning_rate_at
from paribus.workspace import Workspace

CPU = torch.device("cpu")
T5 = {
    "preset": "t5",
    "n_layers": 2,
    "d_model": 32,
    "encoder": {"n_layers": 2},
    "attention": {"n_heads": 2},
}
PRESETS: dict[str, dict[str, Any]] = {
    "causal": {},
    "full": {"stages.1.architecture.mask": "full"},
    "prefix": {"stages.1.architecture.mask": "prefix"},
    "encoder-decoder": {"architecture": T5, "stages.0.objective": "spans"},
    "last": {"stages.1.objective.pooling": "last"},
    "max": {"stages.1.objective.pooling": "max"},
    "documents apart": {"architecture.mask": "causal & same_document"},
}


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("labels")
    write_labelled(home / "texts.jsonl")
    write_tagged(home / "words.conll")
    return home


def trained(run: RunSpec, home: Path) -> Path:
    texts = run_texts(run, home / "cache")
    return train_chain(run, texts, Workspace(home / "runs", home / "cache", "cpu")).folder


def loader_of(run: RunSpec, texts: Texts) -> ProblemLoader:
    spec = resolve(run.last_architecture)
    return ProblemLoader(
        dataset=texts[-1],
        stage=run.last,
        has_encoder=spec.encoder is not None,
        separates_documents="same_document" in str(run.last_architecture.mask),
    )


def plain_losses(run: RunSpec, loader: ProblemLoader, n_steps: int) -> list[float]:
    """The losses of a loop that anybody would write: torch's AdamW, a linear layer, the same
    batches of text.
    """
    model, training = build(run.last_architecture, seed=3), run.last.training
    labelled = loader.labelled
    assert labelled is not None
    objective = run.last.objective
    start = build_label_head(labelled.names, model.spec, 3, CPU)
    head = torch.nn.Linear(model.spec.d_model, len(labelled.names))
    head.load_state_dict(start.state_dict())
    decaying, others = [head.weight], [head.bias]
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 or "positions" in name:
            others.append(parameter)
        else:
            decaying.append(parameter)
    own = training.optimizer
    groups = [{"params": decaying, "weight_decay": own.decay}, {"params": others}]
    adamw = torch.optim.AdamW(groups, betas=(own.beta1, own.beta2), eps=own.eps, weight_decay=0.0)
    eos = labelled.dataset.vocabulary.eos
    losses = []
    for step in range(n_steps):
        text = labelled.text_batch(
            "train", training.data_seed, step, training.n_sequences, training.length
        )
        assert text.real_BT is not None
        assert text.labels_BM is not None
        total = torch.zeros(())
        for row, n_tokens in enumerate(text.real_BT.sum(1).tolist()):
            before = [] if loader.separates_documents else [eos]
            tokens = torch.tensor([[*before, *text.tokens_BT[row, :n_tokens].tolist()]])
            states = read(model, tokens)[0, len(before) :]
            labels = text.labels_BM[row]
            if isinstance(objective, WordTags):
                asked = labels[:n_tokens] >= 0
                logits, labels = head(states[asked]), labels[:n_tokens][asked]
            elif isinstance(objective, TextLabels) and objective.pooling == "last":
                logits = head(states[-1:])
            elif isinstance(objective, TextLabels) and objective.pooling == "max":
                logits = head(states.max(0, keepdim=True).values)
            else:
                logits = head(states.mean(0, keepdim=True))
            total = total + F.cross_entropy(logits, labels, reduction="sum")
        loss = total / int((text.labels_BM >= 0).sum())
        for group in adamw.param_groups:
            group["lr"] = learning_rate_at(step, training)
        adamw.zero_grad()
        loss.backward()
        assert own.clip is not None
        torch.nn.utils.clip_grad_norm_([*model.parameters(), *head.parameters()], own.clip)
        adamw.step()
        losses.append(loss.item())
    return losses


def read(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """The states of a text by itself, without padding."""
    batch = Batch.of(tokens, prefix=tokens.shape[1])
    if model.encoder is None:
        return model.hidden_states(batch).states_BTD
    kept: list[torch.Tensor] = []
    hook = model.encoder.register_forward_hook(lambda *given: kept.append(given[2].states_BTD))
    model.hidden_states(Batch.of(torch.zeros(1, 1, dtype=torch.int64), source=batch))
    hook.remove()
    return kept[0]


@pytest.mark.parametrize("case", [*PRESETS, "tags"])
def test_fifty_steps_equal_a_plain_loop(home, case):
    training = {"n_steps": 50, "n_sequences": 4, "optimizer.rate": 3e-3}
    training = {f"stages.1.training.{name}": value for name, value in training.items()}
    if case == "tags":
        run = tags_run(home / "words.conll", training)
    else:
        run = labels_run(home / "texts.jsonl", {**training, **PRESETS[case]})
    loader = loader_of(run, run_texts(run, home / "cache"))
    expected = plain_losses(run, loader, 50)
    model = build(run.last_architecture, seed=3)
    assert loader.labelled is not None
    head = build_label_head(loader.labelled.names, model.spec, 3, CPU)
    learner = Learner(model, run.last.training, loader.dataset.vocabulary, head=head)
    losses = []
    for step in range(50):
        sums = learner.step(step, loader.problems_at(step))
        losses.append(sums.nats_sum.item() / sums.target_count.item())
    np.testing.assert_allclose(losses, expected, atol=1e-4)
    assert min(losses) < losses[0] / 2


@pytest.fixture(scope="session")
def tuned(home: Path) -> Path:
    run = labels_run(home / "texts.jsonl", {"stages.1.training.n_steps": 60})
    return trained(run, home)


def test_labels_that_the_text_tells_are_learnt(home, tuned):
    run = labels_run(home / "texts.jsonl", {"stages.1.training.n_steps": 60})
    labelled = LabelledCorpus(run_texts(run, home / "cache")[-1], TextLabels(n_labels=2))
    evaluation = evaluate_head(tuned, labelled, CPU)
    assert evaluation.score > 0.9
    assert evaluation.head.summary["accuracy"] == evaluation.score
    assert evaluation.head.summary["matthews"] > 0.8
    assert evaluation.head.floors["uniform"] == 0.5
    assert evaluation.highest_floor == evaluation.head.floors["majority"] > 0.5
    assert len(evaluation.answers) == len(corpus_texts(labelled, "test")) > 20
    (path,) = (tuned / "evaluations").iterdir()
    assert read_task_evaluation(path) == evaluation
    assert evaluate_head(tuned, labelled, CPU) == evaluation


def test_shuffled_labels_bring_it_to_the_majority(home, tuned):
    steps = {"stages.1.training.n_steps": 60}
    run = labels_run(home / "texts.jsonl", {**steps, "stages.1.corpus.shuffled_targets": True})
    labelled = LabelledCorpus(run_texts(run, home / "cache")[-1], TextLabels(n_labels=2))
    evaluation = evaluate_head(trained(run, home), labelled, CPU)
    assert evaluation.score == pytest.approx(evaluation.head.floors["majority"], abs=0.1)
    unshuffled = labels_run(home / "texts.jsonl", steps)
    asked = LabelledCorpus(run_texts(unshuffled, home / "cache")[-1], TextLabels(n_labels=2))
    learnt = evaluate_head(tuned, asked, CPU)
    assert learnt.score > evaluation.highest_floor + 0.1
    assert learnt.head.floors == evaluation.head.floors  # the same texts with the same labels
    for one, other in zip(learnt.answers, evaluation.answers, strict=True):
        assert (one.item, one.key) == (other.item, other.key)


def test_tags_that_words_tell_are_learnt_and_words_that_do_not_fit_are_wrong(home):
    changes = {"stages.1.training.n_steps": 60, "stages.1.training.optimizer.rate": 3e-3}
    run = tags_run(home / "words.conll", changes)
    labelled = LabelledCorpus(run_texts(run, home / "cache")[-1], WordTags(n_labels=2))
    folder = trained(run, home)
    evaluation = evaluate_head(folder, labelled, CPU)
    assert evaluation.score > 0.9
    labeller = load_labeller(load_checkpoint(folder), CPU)
    item = TagItem(name="1", document="1", words=("ace",) * 9, tags=(1,) * 9)
    (answer,) = answer_tags(labeller, [item], ("E", "O"))
    # a row of 24 has room for 23 letters, which are six words and their spaces
    assert str(answer.chosen).split() == ["O"] * 6 + ["‹cut›"] * 3
    assert (answer.score, answer.count, answer.n_truncated_tokens) == (6.0, 9.0, 12)


def test_the_order_of_labels_is_that_of_who_asks(tuned, home):
    run = labels_run(home / "texts.jsonl", {"stages.1.training.n_steps": 60})
    labelled = LabelledCorpus(run_texts(run, home / "cache")[-1], TextLabels(n_labels=2))
    labeller = load_labeller(load_checkpoint(tuned), CPU)
    items = corpus_texts(labelled, "test")[:5]
    own = answer_labels(labeller, items, ("even", "odd"))
    turned = answer_labels(labeller, items, ("odd", "even"))
    for one, other in zip(own, turned, strict=True):
        assert one.option_nats == other.option_nats[::-1]
    with pytest.raises(SpecError, match="labels are 'even', 'none', but the head was trained for"):
        answer_labels(labeller, items, ("even", "none"))
    with pytest.raises(SpecError, match="trained for 'labels', which gives no tags of words"):
        answer_tags(labeller, [], ("even", "odd"))


def test_the_head_lies_in_its_own_stage_beside_weights_that_anybody_can_read(tuned):
    spec = json.loads((tuned / "spec.json").read_text())
    assert [stage["kind"] for stage in spec["stages"]] == ["pretrain", "tune"]
    checkpoint = latest_checkpoint(tuned / "checkpoints").checkpoint
    assert checkpoint is not None
    tensors = load_file(checkpoint.folder / "label-head.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {
        "label_head.bias": (2,),
        "label_head.weight": (2, 32),
    }
    assert json.loads((checkpoint.folder / "labels.json").read_text()) == {
        "labels": ["even", "odd"]
    }
    assert restore(checkpoint.folder).spec.d_model == 32  # a checkpoint as any other
    for folder in tuned.parent.iterdir():
        stages = json.loads((folder / "spec.json").read_text())["stages"]
        has_head = bool(list(folder.glob("checkpoints/*/label-head.safetensors")))
        assert has_head == (len(stages) == 2)


def test_other_weights_begin_with_those_of_the_stage_before(home):
    run = labels_run(home / "texts.jsonl", {"stages.1.training.optimizer.rate": 1e-30})
    folder = trained(run, home)
    parent = next(
        path.parent
        for path in folder.parent.glob("*/spec.json")
        if len(json.loads(path.read_text())["stages"]) == 1
    )
    states = []
    for own in (folder, parent):
        checkpoint = latest_checkpoint(own / "checkpoints").checkpoint
        assert checkpoint is not None
        states.append(load_file(checkpoint.folder / "weights.safetensors"))
    for name, tensor in states[0].items():
        assert tensor.equal(states[1][name]), name


def test_of_an_encoder_decoder_the_decoder_stays_as_it_was(home):
    run = labels_run(home / "texts.jsonl", PRESETS["encoder-decoder"])
    loader = loader_of(run, run_texts(run, home / "cache"))
    model = build(run.last_architecture, seed=3)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    head = build_label_head(("even", "odd"), model.spec, 3, CPU)
    learner = Learner(model, run.last.training, loader.dataset.vocabulary, head=head)
    learner.step(0, loader.problems_at(0))
    for name, tensor in model.state_dict().items():
        moves = name.startswith(("embedding", "encoder"))
        assert tensor.equal(before[name]) != moves, name


def test_the_price_and_the_memory_count_the_head(home):
    run = labels_run(home / "texts.jsonl")
    spec = resolve(run.last_architecture)
    counts, own = count_parameters(spec), stage_parameters(spec, run.last.objective)
    assert own.total == counts.total + 2 * 32 + 2
    assert own.active == counts.active + 2 * 32 + 2
    assert own.non_embedding == counts.non_embedding


def test_the_head_starts_from_a_stream_of_its_own():
    spec = resolve(build_architecture())
    one, same = (build_label_head(("a", "b"), spec, 3, CPU) for _ in range(2))
    assert one.weight.equal(same.weight)
    assert not one.weight.equal(build_label_head(("a", "b"), spec, 4, CPU).weight)
    assert not bool(one.bias.any())
    assert one.weight.std().item() == pytest.approx(0.02, rel=0.5)


def build_architecture() -> Any:
    return labels_run(Path("nowhere.jsonl")).last_architecture


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stages.1.objective.n_labels": 3}, "n_labels is 3, but the training text has 2 labels"),
        ({"stages.1.objective.pooling": "first"}, "pooling is 'first', but under the mask causal"),
        (
            {"stages.1.objective": {"kind": "tags", "n_labels": 2}},
            "objective.kind is 'tags', but corpus.sources.0 is of the kind 'labelled'",
        ),
        ({"stages.1.corpus.valid": 0.0}, "has no labelled text in split 'valid'"),
        ({"architecture.max_length": 16}, "reads 24 positions, past max_length 16"),
    ],
)
def test_what_cannot_be_learnt_is_refused_with_the_reason(home, changes, message):
    run = labels_run(home / "texts.jsonl", changes)
    text = run_texts(run, home / "cache")[-1]
    with pytest.raises(SpecError, match=message):
        require_trainable(run, text)


def test_a_label_that_only_a_held_out_split_has_is_refused(home):
    # by its hash, this text is held out
    rare = next(text for text in map("rare {}".format, range(99)) if held_out(text))
    lines = (home / "texts.jsonl").read_text().splitlines()
    path = home / "rare.jsonl"
    path.write_text("\n".join([*lines, json.dumps({"text": rare, "label": "x"})]))
    run = labels_run(path)
    with pytest.raises(SpecError, match="has the label 'x', which the training split has not"):
        require_trainable(run, run_texts(run, home / "cache")[-1])


def held_out(text: str) -> bool:
    (digest,) = piece_digests(Document(text.encode()))
    return split_of(digest, 0.15, 0.15) != "train"


def test_a_head_gives_no_likelihood():
    with pytest.raises(SpecError, match="its head gives labels; measure the labels"):
        answering_component(TextLabels(n_labels=2), "likelihood")


def test_a_checkpoint_without_a_head_is_refused(home, tuned):
    first = next(
        path.parent
        for path in tuned.parent.glob("*/spec.json")
        if len(json.loads(path.read_text())["stages"]) == 1
    )
    checkpoint = latest_checkpoint(first / "checkpoints").checkpoint
    assert checkpoint is not None
    with pytest.raises(RecordError, match="has no head for labels; give a run whose last stage"):
        read_label_head(checkpoint.folder, 32)
