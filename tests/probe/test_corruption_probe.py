"""The probe of corruption: nothing is lost where nothing else is hidden, or else is read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from byte_models import VOCABULARY, byte_model
from probed_models import found_values, probed, random_texts, without_attention

from paribus.errors import SpecError
from paribus.interop.recorded_objective import write_objective
from paribus.model import Transformer
from paribus.probe.corrupted_input import corrupted_text, corrupting_components
from paribus.probe.corruption_probe import n_posed, probe_corruption
from paribus.probe.subject import ProbedModel
from paribus.record.probe_rows import ProbeRow
from paribus.spec.objectives import MaskedLM, Objective, SpanCorruption
from paribus.spec.probes import CorruptionProbe
from paribus.spec.run import load_objective
from paribus.watcher import Watcher

T = 48
MASKED, SPANS = MaskedLM(rate=0.3), SpanCorruption(rate=0.3)
CASES = [("bert", MASKED), ("t5", SPANS), ("unilm", SPANS), ("llama", SPANS)]


def asked(model: Transformer, objective: Objective, folder: Path) -> ProbedModel:
    """A model that was trained by an objective."""
    subject = probed(model, folder)
    write_objective(subject.checkpoint.folder, objective)
    return ProbedModel.of(subject.checkpoint, subject.device)


def subject_of(preset: str, objective: Objective, folder: Path) -> ProbedModel:
    return asked(byte_model(preset, max_length=T), objective, folder)


def corruption_rows(subject: ProbedModel, n_questions: int = 8) -> list[ProbeRow]:
    spec = CorruptionProbe(n_questions=n_questions)
    return list(probe_corruption(subject, random_texts(3, T), spec, Watcher()))


@pytest.mark.parametrize(
    ("preset", "objective"),
    [
        ("bert", MaskedLM(rate=0.01, masked=1.0, replaced=0.0)),
        ("t5", SpanCorruption(rate=0.01)),
        ("unilm", SpanCorruption(rate=0.01)),
    ],
)
def test_one_hidden_token_is_hidden_alone(
    preset: str, objective: Objective, tmp_path: Path
) -> None:
    rows = corruption_rows(subject_of(preset, objective, tmp_path))
    assert found_values(rows, "cost of corruption") == pytest.approx([0], abs=1e-5)
    assert found_values(rows, "loss, plain input")[0] > 0


@pytest.mark.parametrize(("preset", "objective"), CASES)
def test_a_model_that_ignores_its_context_loses_nothing(
    preset: str, objective: Objective, tmp_path: Path
) -> None:
    changes = {"positions": "rotary"} if preset == "unilm" else {}
    model = without_attention(byte_model(preset, max_length=T, changes=changes))
    with torch.no_grad():  # the number of a span is no context
        sentinels = [int(VOCABULARY.sentinel(n)) for n in range(VOCABULARY.n_sentinels)]
        model.embedding.weight[sentinels] = model.embedding.weight[sentinels[0]].clone()
    rows = corruption_rows(asked(model, objective, tmp_path))
    assert found_values(rows, "cost of corruption") == pytest.approx([0], abs=1e-5)


@pytest.mark.parametrize(("preset", "objective"), CASES)
def test_a_model_that_reads_its_context_sees_the_corruption(
    preset: str, objective: Objective, tmp_path: Path
) -> None:
    (cost,) = found_values(
        corruption_rows(subject_of(preset, objective, tmp_path)), "cost of corruption"
    )
    assert abs(cost) > 1e-4


@pytest.mark.parametrize(("preset", "objective"), CASES)
def test_the_same_tokens_are_asked_in_a_text_that_is_otherwise_plain(
    preset: str, objective: Objective, tmp_path: Path
) -> None:
    subject, text = subject_of(preset, objective, tmp_path), random_texts(1, T)
    (component,) = corrupting_components(subject.checkpoint.objective())
    found = corrupted_text(subject, text, component, n_questions=3, seed=0, k=0)
    asked = found.corrupted.targets_BM[found.corrupted.weights_BM > 0].tolist()
    alone = [token for one in found.plain for token in one.targets_BM[one.weights_BM > 0].tolist()]
    assert asked == alone
    assert len(found.plain) == 3
    for one in found.plain:
        read = one.inputs if one.inputs.source is None else one.inputs.source
        tokens = read.tokens_BT[0, : read.layout.prefix].tolist()
        hidden = [token for token in tokens if token >= VOCABULARY.n_text]
        assert len(hidden) == 1
        own = one.targets_BM[one.weights_BM > 0].tolist()
        place = tokens.index(hidden[0])
        n_read = place + len(own) + len(tokens) - place - 1
        whole = [*tokens[:place], *own, *tokens[place + 1 :]]
        assert whole == list(text.texts[0].tokens[:n_read])


def test_a_mixture_has_rows_of_each_component_and_of_all(tmp_path: Path) -> None:
    subject = subject_of("t5", load_objective("ul2"), tmp_path)
    rows = corruption_rows(subject, n_questions=2)
    variants = {row.variant for row in rows}
    assert "" in variants
    n_components = len(corrupting_components(subject.checkpoint.objective()))
    assert len(variants) == 1 + n_components
    assert n_posed(subject, random_texts(3, T)) == 3 * n_components


@pytest.mark.parametrize(("preset", "objective"), [("gpt2", "causal"), ("t5", "prefix")])
def test_an_objective_that_hides_nothing_is_refused(
    preset: str, objective: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match="hides nothing inside of a text, so training and use"):
        corruption_rows(subject_of(preset, load_objective(objective), tmp_path))
