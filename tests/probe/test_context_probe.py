"""The probe of effective context on models that ignore it, and beside the likelihood of an item."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from byte_models import BYTE_TOKENIZER, byte_model
from probed_checkpoint import probed_checkpoint
from probed_models import found_values, probed, random_texts, without_attention

from paribus.errors import SpecError
from paribus.evaluate import Item
from paribus.evaluate.likelihood import AskedModel, likelihoods
from paribus.model import Transformer
from paribus.probe.context_probe import (
    IN_ORDER,
    IN_SIGHT,
    POSITION,
    ContextCut,
    context_cuts,
    n_targets,
    probe_context,
)
from paribus.probe.position_loss import MAX_GROUPS, position_losses
from paribus.probe.subject import ProbedModel, text_layout
from paribus.probe.target_loss import TextLoss
from paribus.probe.texts import ProbeText, ProbeTexts
from paribus.record.probe_rows import ProbeRow
from paribus.spec.probes import ContextProbe
from paribus.watcher import Watcher

T = 48
ROTARY = {"positions": "rotary"}
SPEC = ContextProbe(n_texts=3)


def texts_of(model: Transformer, folder: Path) -> ProbeTexts:
    """Texts as the model reads them, with what stands before one."""
    subject, texts = probed(model, folder), []
    for text in random_texts(3, T).texts:
        letters = bytes(text.tokens).decode()
        texts.append(ProbeText(text.name, text.domain, subject.encode(letters)[:T]))
    return ProbeTexts(tuple(texts))


def context_rows(model: Transformer, folder: Path) -> list[ProbeRow]:
    texts = texts_of(model, folder / "texts")
    return list(probe_context(probed(model, folder / "model"), texts, SPEC, Watcher()))


@pytest.mark.parametrize(
    ("preset", "changes"), [("llama", {}), ("unilm", ROTARY), ("t5", {}), ("bart", {})]
)
def test_a_model_that_ignores_its_context_has_a_flat_curve(
    preset: str, changes: dict[str, str], tmp_path: Path
) -> None:
    model = without_attention(byte_model(preset, max_length=T, changes=changes))
    rows = context_rows(model, tmp_path)
    curve = found_values(rows, "loss", x_name=IN_SIGHT)
    assert len(curve) == 5  # 4, 8, 16, 32 and all
    assert curve == pytest.approx([curve[0]] * len(curve), rel=1e-5)
    in_order = found_values(rows, "loss", x_name=IN_ORDER)[1:]  # the last token stays in place
    assert in_order == pytest.approx([curve[0]] * len(in_order), rel=1e-5)
    assert found_values(rows, "gain of context") == pytest.approx([0], abs=1e-5)
    assert found_values(rows, "effective context") == [4]


@pytest.mark.parametrize("preset", ["gpt2", "unilm", "bart"])
def test_the_loss_with_all_of_the_context_is_that_of_evaluation(
    preset: str, tmp_path: Path
) -> None:
    model = byte_model(preset, max_length=T)
    texts = texts_of(model, tmp_path / "texts")
    subject = probed(model, tmp_path / "model")
    rows = list(probe_context(subject, texts, SPEC, Watcher()))
    items = []
    n_before = len(subject.layout.document_prefix) + len(subject.layout.question_begin)
    for text in texts.texts:
        letters = bytes(text.tokens[n_before:]).decode()
        split = T - T // 4 - n_before
        items.append(Item(text.name, "", letters[:split], letters[split:]))
    asked = AskedModel(model.eval(), subject.checkpoint.objective(), BYTE_TOKENIZER)
    answers = likelihoods(asked, items)
    expected = sum(one.nats for one in answers) / sum(one.n_bytes for one in answers)
    whole = found_values(rows, "loss", x_name=IN_SIGHT)[-1]
    assert whole == pytest.approx(expected / math.log(2), rel=1e-5)
    shortest, shuffled = found_values(rows, "loss", x=4)[0], found_values(rows, "loss", x=0)[0]
    assert found_values(rows, "gain of context") == pytest.approx([shortest - whole])
    assert found_values(rows, "gain of order") == pytest.approx([shuffled - whole])


@pytest.mark.parametrize("preset", ["gpt2", "unilm", "bart"])
def test_the_loss_by_position_is_that_of_evaluation(preset: str, tmp_path: Path) -> None:
    model = byte_model(preset, max_length=T)
    texts = texts_of(model, tmp_path / "texts")
    subject = probed(model, tmp_path / "model")
    found = list(position_losses(subject, texts))
    assert len(found) == MAX_GROUPS
    assert found[0][0] == T // 4 + 0.5  # two tokens together
    assert found[-1][0] == T - 1
    require_nats_of_evaluation(subject, texts, found)


def test_a_model_that_is_asked_for_one_token_at_a_time_has_them_in_order(tmp_path: Path) -> None:
    source = {"kind": "copy", "form": "text"}
    checkpoint, model = probed_checkpoint(tmp_path, "bert", source, "last_token")
    layout = text_layout(checkpoint.objective(), checkpoint.spec, checkpoint.vocabulary)
    subject = ProbedModel(checkpoint, model.eval(), layout, torch.device("cpu"))
    texts = []
    for text in random_texts(3, T).texts:
        tokens = subject.encode(bytes(text.tokens).decode())[:T]
        texts.append(ProbeText(text.name, text.domain, tokens))
    own = ProbeTexts(tuple(texts))
    require_nats_of_evaluation(subject, own, list(position_losses(subject, own)))


def require_nats_of_evaluation(
    subject: ProbedModel, texts: ProbeTexts, found: list[tuple[float, TextLoss]]
) -> None:
    """The first groups, and all of them, have the nats of such targets."""
    n_before = len(subject.layout.document_prefix) + len(subject.layout.question_begin)
    tokenizer = subject.checkpoint.tokenizer
    asked = AskedModel(subject.model.eval(), subject.checkpoint.objective(), tokenizer)
    for n_groups in (1, 5, MAX_GROUPS):
        n_tokens = sum(loss.n_bytes for _, loss in found[:n_groups]) // len(texts.texts)
        items = []
        for text in texts.texts:
            letters, split = bytes(text.tokens[n_before:]).decode(), T // 4 - n_before
            target = letters[split : split + n_tokens]
            items.append(Item(text.name, "", letters[:split], target))
        expected = sum(answer.nats for answer in likelihoods(asked, items))
        nats = sum(loss.nats for _, loss in found[:n_groups])
        assert nats == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("preset", ["llama", "t5"])
def test_a_model_that_ignores_its_context_has_the_same_loss_at_every_position(
    preset: str, tmp_path: Path
) -> None:
    model = without_attention(byte_model(preset, max_length=T))
    subject = probed(model, tmp_path)
    one_letter = ProbeText("one letter", "", subject.encode("a" * T)[:T])
    rows = list(probe_context(subject, ProbeTexts((one_letter,)), SPEC, Watcher()))
    curve = found_values(rows, "loss", x_name=POSITION)
    assert len(curve) == MAX_GROUPS
    assert curve[1:] == pytest.approx([curve[-1]] * (len(curve) - 1), rel=1e-5)


def test_cuts_double_up_to_the_whole_context():
    in_sight = [cut.n_tokens for cut in context_cuts(36) if not cut.shuffles]
    assert in_sight == [4, 8, 16, 32, 36]
    assert [cut.n_tokens for cut in context_cuts(32) if not cut.shuffles] == [4, 8, 16, 32]
    assert ContextCut(0, shuffles=True) in context_cuts(36)


def test_a_shuffle_is_the_same_each_time(tmp_path: Path) -> None:
    model = byte_model("gpt2", max_length=T)
    first, second = context_rows(model, tmp_path / "a"), context_rows(model, tmp_path / "b")
    assert first == second


def test_the_cost_is_what_is_done(tmp_path: Path) -> None:
    done: list[int] = []

    class Steps(Watcher):
        def advance(self, amount: int) -> None:
            done.append(amount)

    texts, subject = random_texts(3, T), probed(byte_model("gpt2", max_length=T), tmp_path)
    list(probe_context(subject, texts, SPEC, Steps()))
    assert sum(done) == n_targets(subject, texts)


def test_a_model_that_fills_masks_is_refused(tmp_path: Path) -> None:
    subject = probed(byte_model("bert", max_length=T), tmp_path)
    with pytest.raises(SpecError, match="gives no likelihood of a target after its context"):
        list(probe_context(subject, random_texts(2, T), SPEC, Watcher()))


def test_texts_that_leave_no_context_are_refused(tmp_path: Path) -> None:
    subject = probed(byte_model("gpt2", max_length=T), tmp_path)
    with pytest.raises(SpecError, match=r"tokens of context before the last quarter; use 1\d or"):
        list(probe_context(subject, random_texts(2, 6), SPEC, Watcher()))
