"""What a design may name of a probe are rows that the probe has, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from probed_runs import CORPUS, ProbedRun, train_probed_run

from paribus.errors import RecordError, SpecError
from paribus.probe import kept_rows
from paribus.probe.run import probe_examples
from paribus.record.probe_rows import ProbeRow
from paribus.spec.measure import PROBE_UNITS
from paribus.spec.probe_variants import (
    named_variants,
    quantity_fault,
    read_examples,
    tells_branches_apart,
    tells_stacks_apart,
    variant_fault,
)
from paribus.spec.probes import InContextProbe, Probe, load_probe
from paribus.spec.yardstick import ProbeYardstick
from paribus.watcher import Watcher

EXPERTS = {"preset": "gpt2", "feed_forward": {"kind": "experts", "n_experts": 4, "n_active": 2}}
DECODER, ENCODER_DECODER = {"preset": "gpt2"}, {"preset": "t5", "encoder": {"n_layers": 2}}
LANGUAGE = {"n_documents": 300, "n_inputs": 2, "min_length": 4, "max_length": 5, "form": "pairs"}
CASES: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "rank": (ENCODER_DECODER, "prefix", {"n_texts": 2, "score_sds": (0.5, 3.0)}),
    "collapse": (ENCODER_DECODER, "prefix", {"n_texts": 2}),
    "positions": ({**DECODER, "n_layers": 1}, "causal", {"n_texts": 4, "classifier": True}),
    "experts": (EXPERTS, "causal", {"n_texts": 2}),
    "flow": (ENCODER_DECODER, "prefix", {"n_texts": 2}),
    "context": (DECODER, "causal", {"n_texts": 2}),
    "gradients": (DECODER, "causal", {"n_texts": 2}),
    "corruption": (ENCODER_DECODER, "spans", {"n_texts": 2}),
    "descent": (DECODER, "seq2seq", {"n_texts": 20, "n_others": 2}),
    "in-context": (DECODER, "seq2seq", {"n_texts": 3}),
}


def found_rows(run: ProbedRun, probe: Probe) -> list[ProbeRow]:
    if isinstance(probe, InContextProbe):
        return list(probe_examples(run.subject, probe, Watcher()))
    return run.rows(probe)


def trained(kind: str, folder: Path) -> tuple[Probe, list[ProbeRow]]:
    architecture, objective, fields = CASES[kind]
    probe = load_probe(kind, fields)
    more: dict[str, Any] = {}
    if objective == "seq2seq":
        language = "classification" if kind == "descent" else "regression"
        source = {"kind": language, **LANGUAGE}
        more["text"] = {"sources": [source], "tokenizer": "bytes", "test": 0.1}
    if kind == "experts":  # whose domains are sources
        (source,) = CORPUS["sources"]
        more["text"] = {**CORPUS, "sources": [source, {**source, "seed": 1}]}
    return probe, found_rows(train_probed_run(folder, architecture, objective, **more), probe)


def shown(probe: Probe, quantity: str, **fields: str) -> ProbeYardstick:
    table = {"kind": "probe", "probe": probe, "quantity": quantity, **fields}
    return ProbeYardstick.model_validate(table)


def test_every_probe_is_a_case() -> None:
    assert set(CASES) == set(PROBE_UNITS)


@pytest.mark.parametrize("kind", CASES)
def test_every_quantity_and_variant_that_a_design_may_name_has_a_number(
    kind: str, tmp_path: Path
) -> None:
    probe, rows = trained(kind, tmp_path)
    for quantity in PROBE_UNITS[kind]:
        own = [row for row in rows if row.quantity == quantity]
        stacks = {row.stack for row in own} if tells_stacks_apart(kind, quantity) else {"stack"}
        branches = {"attention"}
        if tells_branches_apart(kind, quantity):
            branches = {row.branch for row in own if row.stack == "stack"}
        for variant in named_variants(probe, quantity):
            for stack in stacks:
                yardstick = shown(probe, quantity, variant=variant, stack=stack)
                assert isinstance(kept_rows.shown_value(rows, yardstick), float)
            for branch in branches:
                yardstick = shown(probe, quantity, variant=variant, branch=branch)
                assert isinstance(kept_rows.shown_value(rows, yardstick), float)
        of_model = [row.variant for row in own if row.x_name in ("", kept_rows.DEPTH)]
        for variant in of_model:
            assert variant_fault(probe, quantity, variant) is None


def test_a_variant_that_is_not_named_has_no_number(tmp_path: Path) -> None:
    probe, rows = trained("gradients", tmp_path)
    assert kept_rows.shown_value(rows, shown(probe, "gradient norm", variant="step 4")) > 0
    with pytest.raises(RecordError, match="variants are '', 'step 4', 'step 8', 'untrained'"):
        kept_rows.shown_value(rows, shown(probe, "gradient norm", variant="step 5"))


def test_settings_say_which_variants_there_are() -> None:
    assert named_variants(load_probe("rank", {"score_sds": (2.0,)}), "stable rank") == (
        "",
        "scores at sd 2",
    )
    assert named_variants(load_probe("positions", {"start": False}), "exact positions") == (
        "",
        "positions shuffled",
    )
    assert "untrained" not in named_variants(load_probe("descent", {"start": False}), "SimAOU")
    assert quantity_fault(load_probe("gradients"), "curvature along the gradient") is None


def test_examples_are_counted_in_words() -> None:
    assert read_examples("ridge, 4 examples") == ("ridge", 4)
    assert read_examples("1 example") == ("", 1)
    assert read_examples("16 steps of gradient descent, 0 examples") == (
        "16 steps of gradient descent",
        0,
    )
    assert read_examples("ridge") == ("ridge", None)
    assert read_examples("") == ("", None)


def test_cross_attention_of_descent_is_shown() -> None:
    """The probe looks at the branch that answers; a design does not choose it."""
    row = ProbeRow(
        probe="descent", quantity="SimAOU", value=0.5, n=20, stack="stack", branch="cross", layer=0
    )
    assert kept_rows.shown_value([row], shown(load_probe("descent"), "SimAOU")) == 0.5
    with pytest.raises(SpecError, match="'SimAO' is no"):
        load_probe("SimAO")
