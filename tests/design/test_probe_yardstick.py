"""Probes that a design shows beside its yardstick."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import paribus as pb
from paribus.errors import SpecError
from paribus.probe import kept_rows
from paribus.record.probe_rows import ProbeRow, read_probe_rows
from paribus.spec.measure import PROBE_UNITS, TASK_MEASURES
from paribus.spec.probes import PROBES
from paribus.spec.yardstick import ProbeYardstick
from paribus.workspace import Execution, Workspace

RANK = {"kind": "probe", "probe": {"kind": "rank", "n_texts": 2, "length": 16}}
EFFECTIVE = {**RANK, "quantity": "effective rank"}
COLUMN = "rank: effective rank.test"


def shown(probe: str | dict[str, Any], quantity: str, **fields: str) -> dict[str, Any]:
    return {"kind": "probe", "probe": probe, "quantity": quantity, **fields}


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
        (
            {**EFFECTIVE, "variant": "scores at sd 2"},
            "did you mean 'scores at sd 4'.*use none, 'scores at sd 1' or 'scores at sd 4'",
        ),
        (shown("collapse", "cosine similarity", variant="atention alone"), "did you mean 'attent"),
        (
            shown({"kind": "collapse", "start": False}, "cosine similarity", variant="untrained"),
            "use none, 'without skips', 'without feed-forward' or 'attention alone'",
        ),
        (shown("flow", "reached pairs", variant="uniform attention"), "there is none; leave it"),
        (shown("positions", "exact positions", variant="two layers"), "use none, 'positions shuf"),
        (shown("gradients", "gradient norm", variant="untraind"), "'untrained', and 'step N' for"),
        (shown("gradients", "gradient norm", variant="step 1"), "others.0 in causal: variant is"),
        (
            shown("gradients", "curvature along the last update"),
            "in prefix: quantity is 'curvature along the last update', but no checkpoint before",
        ),
        (
            shown({"kind": "gradients", "curvature": False}, "curvature along the gradient"),
            "probe.curvature is false; set it to true",
        ),
        (shown("context", "gain of order", variant="shuffled"), "there is none; leave it out"),
        (shown("context", "gain of order", stack="encoder"), "is of the whole model; leave it out"),
        (shown("corruption", "cost of corruption", stack="encoder"), "is of the whole model"),
        (shown("descent", "SimAOU", stack="encoder"), "is of the whole model"),
        (shown("in-context", "nats", stack="encoder"), "is of the whole model"),
        (shown("gradients", "targets per text", stack="encoder"), "is of the whole model"),
        (
            shown("rank", "log |det|", branch="cross"),
            r"'log \|det\|' of the probe 'rank' is not meas",
        ),
        (shown("rank", "effective rank", stack="decoder"), "others.0.stack is 'decoder'"),
        (shown("rank", "effective rank", branch="self"), "others.0.branch is 'self'"),
        (shown("rang", "effective rank"), "others.0.probe.kind is 'rang'"),
        (shown("descent", "SimAOU", split="valid"), "draws documents of its own; leave it out"),
        (
            shown({"kind": "positions", "n_texts": 1}, "exact positions"),
            "others.0.probe.n_texts is 1",
        ),
        (
            shown({"kind": "context", "n_texts": 2, "length": 5}, "gain of context"),
            "'context' in causal: length is 5, which leaves 3 tokens of context",
        ),
        (shown("descent", "SimAOU"), "in causal: .*the corpus has no source 'classification'"),
        (shown("in-context", "nats"), "corpus.sources has 'translation'; use it where every arm"),
        (
            shown("in-context", "squared difference"),
            "variant is ''; use 'ridge', 'mean', .* as in 'ridge, 4 examples'",
        ),
        (shown("in-context", "nats", variant="ridge"), "leave it out, each also after some"),
    ],
)
def test_a_probe_that_does_not_apply_is_refused_before_anything_runs(
    tmp_path: Path, other: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        pb.plan(design_table(other), workspace=workspace(tmp_path))


def examples_table(kind: str, *others: dict[str, Any]) -> dict[str, Any]:
    """A design whose arms learn from examples."""
    table = design_table(*others)
    language = {"kind": kind, "n_documents": 300, "n_inputs": 2, "min_length": 4, "max_length": 5}
    source = {**language, "form": "pairs"}
    table["base"]["corpus"] = {"sources": [source], "tokenizer": "bytes", "test": 0.1}
    table["base"]["objective"] = "seq2seq"
    table["primary"]["measure"] = {"kind": "pairs", "n_items": 4}
    return table


def test_a_design_of_classification_is_planned_with_the_probe_of_descent(tmp_path: Path) -> None:
    table = examples_table("classification", shown("descent", "SimAOU"))
    plan = pb.plan(table, workspace=workspace(tmp_path))
    assert len(plan.arms) == 2


def test_ranks_of_attention_in_tuning_are_refused_where_they_have_no_row(tmp_path: Path) -> None:
    table = examples_table("classification", shown("descent", "Kendall's tau"))
    assert len(pb.plan(table, workspace=workspace(tmp_path)).arms) == 2
    table["factor"] = ["architecture.mask", "architecture.encoder"]
    table["arms"]["encoded"] = {"architecture": {"encoder": {"n_layers": 1}}}
    with pytest.raises(SpecError, match=r"in encoded: quantity is .*; use 'SimAOU' or 'SimAM'"):
        pb.plan(table, workspace=workspace(tmp_path))


def test_a_run_without_a_number_is_measured_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where tuning corrects nothing, there is no recall; a determinant may be minus infinity."""
    probe_model = kept_rows.probe_model

    def without_recall(*arguments: Any) -> Iterator[ProbeRow]:
        for row in probe_model(*arguments):
            if row.quantity != "Rec2FTP":
                yield row

    monkeypatch.setattr(kept_rows, "probe_model", without_recall)
    probe = {"kind": "descent", "n_texts": 20, "n_others": 1, "start": False}
    table = examples_table("classification", shown(probe, "Rec2FTP"), shown(probe, "SimAOU"))
    for _ in range(2):  # the second time, all is there
        rows = pb.run(table, name="recalls", execution=Execution(workspace(tmp_path)))
        assert [row["descent: Rec2FTP.test"] for row in rows] == [None] * 6
        assert all(isinstance(row["descent: SimAOU.test"], float) for row in rows)


IN_CONTEXT = {"kind": "in-context", "n_texts": 5}


def test_a_design_shows_what_a_model_makes_of_examples(tmp_path: Path) -> None:
    table = examples_table(
        "regression",
        shown(IN_CONTEXT, "squared error"),
        shown(IN_CONTEXT, "squared error", variant="4 examples"),
        shown(IN_CONTEXT, "squared difference", variant="ridge, 4 examples"),
    )
    execution = Execution(workspace(tmp_path))
    rows = pb.run(table, name="examples", execution=execution)
    (folder, *_) = sorted((tmp_path / "runs").glob("*/probes"))
    (file,) = folder.glob("in-context-*.jsonl")  # one for all that is shown
    kept = {(row.quantity, row.variant, row.x): row.value for row in read_probe_rows(file)}
    (row,) = [row for row in rows if row["run"] == folder.parent.name]
    assert row["in-context: squared error.test"] == kept["squared error", "", 5.0]
    assert row["in-context: squared error, 4 examples.test"] == kept["squared error", "", 4.0]
    column = "in-context: squared difference, ridge, 4 examples.test"
    assert row[column] == kept["squared difference", "ridge", 4.0]
    files = pb.write_report("examples", runs=tmp_path / "runs")
    assert any("in-context: squared error" in file.read_text("utf-8") for file in files)


@pytest.mark.parametrize(
    ("kind", "quantity", "variant", "words"),
    [
        ("classification", "squared error", "", "'classification' has labels; use 'nats', 'accur"),
        ("regression", "squared error", "6 examples", "have 4 to 5 examples; use as many"),
    ],
)
def test_examples_that_no_document_has_are_refused(
    tmp_path: Path, kind: str, quantity: str, variant: str, words: str
) -> None:
    table = examples_table(kind, shown(IN_CONTEXT, quantity, variant=variant))
    with pytest.raises(SpecError, match=words):
        pb.plan(table, workspace=workspace(tmp_path))


def test_examples_are_refused_where_an_arm_cannot_read_them(tmp_path: Path) -> None:
    table = examples_table("regression", shown(IN_CONTEXT, "nats"))
    table["base"]["corpus"]["tokenizer"] = {"kind": "bpe", "n_vocab": 400}
    with pytest.raises(SpecError, match=r"'in-context' in causal: .* must be one token"):
        pb.plan(table, workspace=workspace(tmp_path))


def test_arms_with_other_functions_are_refused(tmp_path: Path) -> None:
    table = examples_table("regression", shown(IN_CONTEXT, "nats"))
    (source,) = table["base"]["corpus"]["sources"]
    table["factor"] = ["architecture.mask", "corpus"]
    table["compound"] = {"prefix": "other functions, on purpose"}
    table["arms"]["prefix"]["corpus"] = {"sources": [{**source, "noise": 0.5}]}
    with pytest.raises(SpecError, match=r"prefix would be (looked at|measured)"):
        pb.plan(table, workspace=workspace(tmp_path))


def test_domains_are_refused_where_there_is_one(tmp_path: Path) -> None:
    table = design_table(shown("experts", "what the domain tells of the expert"))
    table["base"]["architecture"]["feed_forward"] = {
        "kind": "experts",
        "n_experts": 4,
        "n_active": 2,
    }
    with pytest.raises(SpecError, match=r"corpus.sources has 1, .*; use two or more, or 'what the"):
        pb.plan(table, workspace=workspace(tmp_path))


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
    assert set(PROBE_UNITS) == set(PROBES)
    for probe, units in PROBE_UNITS.items():
        for quantity in units:
            measure = TASK_MEASURES[f"{probe}: {quantity}"]
            assert measure.is_inside
            assert measure.direction == "neither way is better"
