"""Probes that a design shows beside its yardstick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paribus as pb
from paribus.errors import SpecError
from paribus.probe import kept_rows
from paribus.record.probe_rows import ProbeRow
from paribus.spec.measure import PROBE_UNITS, TASK_MEASURES
from paribus.spec.probes import PROBES
from paribus.spec.yardstick import ProbeYardstick
from paribus.workspace import Execution, Workspace

RANK = {"kind": "probe", "probe": {"kind": "rank", "n_texts": 2, "length": 16}}
EFFECTIVE = {**RANK, "quantity": "effective rank"}
COLUMN = "rank: effective rank.test"


def design_table(*others: dict[str, Any]) -> dict[str, Any]:
    return {
        "question": "Does the mask change the rank of attention?",
        "factor": "architecture.mask",
        "baseline": "causal",
        "tune": False,
        "seeds": 3,
        "primary": {"measure": {"kind": "halves", "n_items": 4, "max_bytes": 24}, "margin": 0.1},
        "others": list(others),
        "base": {
            "architecture": {
                "preset": "gpt2",
                "n_layers": 1,
                "d_model": 16,
                "max_length": 32,
                "attention": {"n_heads": 2},
            },
            "corpus": {
                "sources": [{"kind": "translation", "n_documents": 200, "form": "text"}],
                "test": 0.1,
            },
            "objective": "prefix",
            "training": {"n_steps": 2, "n_sequences": 4, "length": 32, "warmup": 1},
        },
        "arms": {
            "causal": {"architecture": {"mask": "causal"}},
            "prefix": {"architecture": {"mask": "prefix"}},
        },
    }


def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "runs", tmp_path / "cache", "cpu")


def test_a_design_shows_what_a_probe_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rescaled = {**EFFECTIVE, "variant": "scores at sd 1"}
    table, execution = design_table(EFFECTIVE, rescaled), Execution(workspace(tmp_path))
    calls: list[str] = []
    probe_model = kept_rows.probe_model

    def counted(*arguments: Any) -> Any:
        calls.append("probe")
        return probe_model(*arguments)

    monkeypatch.setattr(kept_rows, "probe_model", counted)
    rows = pb.run(table, name="ranks", execution=execution)
    assert len(calls) == 6  # once a run, for both quantities
    for row in rows:
        assert 1 <= row[COLUMN] <= 16
        assert row["rank: effective rank, scores at sd 1.test"] != row[COLUMN]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({**RANK, "quantity": "effective rang"}, "did you mean 'effective rank'"),
        ({**EFFECTIVE, "branch": "cross"}, "looks at stack.cross_weights, which this"),
        (
            {
                "kind": "probe",
                "probe": "collapse",
                "quantity": "cosine similarity",
                "branch": "cross",
            },
            "does not tell branches apart",
        ),
        ({**EFFECTIVE, "stack": "encoder"}, "looks at encoder.attention_weights, which this"),
        (
            {"kind": "probe", "probe": "experts", "quantity": "first expert stays"},
            "looks at stack.expert_choice, which this",
        ),
        (
            {**EFFECTIVE, "probe": {"kind": "rank", "n_texts": 2, "length": 4000}},
            "held-out documents of 4000 tokens or more",
        ),
        (
            {"kind": "probe", "probe": "corruption", "quantity": "cost of corruption"},
            "hides nothing inside of a text",
        ),
    ],
)
def test_a_probe_that_does_not_apply_is_refused_before_anything_runs(
    tmp_path: Path, other: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        pb.plan(design_table(other), workspace=workspace(tmp_path))


def test_a_design_of_classification_is_planned_with_the_probe_of_descent(tmp_path: Path) -> None:
    table = design_table({"kind": "probe", "probe": "descent", "quantity": "SimAOU"})
    language = {"kind": "classification", "n_documents": 300, "n_inputs": 2, "min_length": 4}
    source = {**language, "max_length": 5, "form": "pairs"}
    table["base"]["corpus"] = {"sources": [source], "tokenizer": "bytes", "test": 0.1}
    table["base"]["objective"] = "seq2seq"
    table["primary"]["measure"] = {"kind": "pairs", "n_items": 4}
    plan = pb.plan(table, workspace=workspace(tmp_path))
    assert len(plan.arms) == 2


def test_a_quantity_of_the_whole_model_is_shown() -> None:
    yardstick = ProbeYardstick.model_validate(
        {"kind": "probe", "probe": "context", "quantity": "gain of context"}
    )
    curve = ProbeRow(probe="context", quantity="loss", value=3.0, n=2, x=4, x_name="tokens")
    whole = ProbeRow(probe="context", quantity="gain of context", value=0.25, n=2)
    assert kept_rows.shown_value([curve, whole], yardstick) == 0.25


def test_a_probe_is_never_judged(tmp_path: Path) -> None:
    table = design_table()
    table["primary"] = {"measure": EFFECTIVE, "margin": 0.1}
    with pytest.raises(SpecError, match=r"primary\.measure"):
        pb.plan(table, workspace=workspace(tmp_path))


def test_every_probe_has_quantities_with_a_measure() -> None:
    assert set(PROBE_UNITS) == set(PROBES) - {"in-context"}  # which draws its own documents
    for probe, units in PROBE_UNITS.items():
        for quantity in units:
            measure = TASK_MEASURES[f"{probe}: {quantity}"]
            assert measure.is_inside
            assert measure.direction == "neither way is better"
