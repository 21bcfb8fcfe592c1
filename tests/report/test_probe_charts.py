"""Figures of what probes found: from rows alone, for one run and for several."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from handmade_probes import QUANTITY, all_probe_rows, causal_maps

from paribus.record.probe_rows import ProbeRow
from paribus.report.attention_charts import maps_shown
from paribus.report.curve_panels import log_ticks
from paribus.report.heat_maps import MAX_LABEL_WIDTH, TITLE_PADDING, title_padding
from paribus.report.images import plot_files
from paribus.report.probe_captions import CAPTIONS
from paribus.report.probe_charts import figure_plots, probe_figures
from paribus.report.probe_page import notebook_figures, render_probe_page
from paribus.report.probe_panels import MAX_PANELS, ProbeFigure, layers_shown, title_lines
from paribus.spec.measure import PROBE_UNITS

EVIL = "</script><script>alert(1)</script>"
MAX_PAGE_BYTES = 3_000_000
PAGE_OF_PROBES = Path(__file__).parents[2] / "docs/probes.md"
FIGURES = [
    "rank-effective-rank-over-the-most-there-can-be-map",
    "rank-effective-rank-over-the-most-there-can-be-by-layer",
    "rank-log-det-map",
    "rank-spectra",
    "collapse-residual-over-norm-by-depth",
    "positions-distance-to-the-true-position-by-depth",
    "experts-first-expert-stays-by-layer",
    "experts-saturation-by-step",
    "experts-load",
    "experts-domains",
    "flow-attention-distance-map",
    "flow-attention-distance-by-layer",
    "flow-attention-entropy-by-layer",
    "flow-weight-on-the-first-token-by-layer",
    "flow-weight-on-itself-by-layer",
    "flow-weight-on-the-most-attended-token-by-layer",
    "flow-reached-pairs-by-depth",
    "flow-share-of-the-gradient-by-distance",
    "context-loss-by-tokens-of-context",
    "context-loss-by-tokens-in-order",
    "context-loss-by-position",
    "gradients-gradient-norm-by-layer",
    "in-context-nats-by-demonstrations",
    "in-context-accuracy-by-demonstrations",
    "in-context-mass-of-symbols-by-demonstrations",
    "in-context-squared-error-by-demonstrations",
    "in-context-squared-difference-by-demonstrations",
    "descent-simaou-by-layer",
    "descent-simam-by-layer",
    "descent-kendall-s-tau-by-layer",
    "corruption-loss",
]
# quantities that are curves alone, so that no design shows them
CURVES_ALONE = {
    "experts": {"saturation"},
    "flow": {"share of the gradient"},
    "context": {"loss"},
    "in-context": {
        "nats",
        "accuracy",
        "mass of symbols",
        "squared error",
        "squared difference",
    },
}


def by_key(runs: dict[str, list[ProbeRow]]) -> dict[str, ProbeFigure]:
    return {figure.key: figure for figure in probe_figures(runs)}


def rows_of(
    *probes: str, n_layers: int = 2, n_heads: int = 2, shift: float = 0.0
) -> list[ProbeRow]:
    """Rows of some probes alone: figures take their time."""
    return [row for row in all_probe_rows(n_layers, n_heads, shift) if row.probe in probes]


@cache
def figures_of_all(n_runs: int = 1) -> list[ProbeFigure]:
    """Figures of runs in which all probes looked."""
    runs = {f"run {number}": all_probe_rows(2, 2, number / 10) for number in range(n_runs)}
    return probe_figures(runs)


def values_in(spec: Any) -> list[dict[str, Any]]:
    """All data of a spec."""
    found = []
    if isinstance(spec, dict):
        own = spec.get("values")
        if isinstance(own, list) and own and isinstance(own[0], dict):
            found += own
        for value in spec.values():
            found += values_in(value)
    elif isinstance(spec, list):
        for value in spec:
            found += values_in(value)
    return found


def test_every_probe_has_its_figures() -> None:
    assert [figure.key for figure in figures_of_all()] == FIGURES


def test_a_map_has_a_panel_for_each_attention_and_a_square_for_each_head() -> None:
    figure = by_key({"a run": rows_of("rank", n_layers=3, n_heads=5)})[FIGURES[0]]
    titles = [plot.spec["title"]["text"] for plot in figure.panels]
    assert titles == [
        ["encoder", "self-attention"],
        ["decoder", "self-attention"],
        ["decoder", "cross-attention"],
    ]
    for plot in figure.panels:
        assert len(plot.numbers) == 3 * 5
        assert plot.heading == ("layer", "head", QUANTITY)
    assert ("1", "4", "0.625") in figure.panels[0].numbers  # (1 + 4) / (5 + 2 + 1)


def test_several_runs_have_a_panel_each_on_one_scale() -> None:
    runs = {"a": rows_of("rank", n_layers=3), "b": rows_of("rank", n_layers=3, shift=0.5)}
    figure = by_key(runs)[FIGURES[0]]
    assert len(figure.panels) == 6
    domains = {
        json.dumps(plot.spec["layer"][0]["encoding"]["opacity"]["scale"]["domain"])
        for plot in figure.panels
    }
    assert len(domains) == 1


def test_a_spectrum_has_a_line_a_layer_or_a_line_a_run() -> None:
    runs = {"a": rows_of("rank", n_layers=3), "b": rows_of("rank", n_layers=3, shift=0.5)}
    one = by_key({"a": runs["a"]})["rank-spectra"]
    assert {line[0] for line in one.panels[0].numbers} == {"layer 0", "layer 1", "layer 2"}
    assert len(one.panels) == 3  # the model as it is, in each attention
    two = by_key(runs)["rank-spectra"]
    assert {line[0] for line in two.panels[0].numbers} == {"a", "b"}
    assert len(two.panels) == 9  # each attention at each scale of the scores
    # a power law of exponent 1: the median, and its tenths at half and at one and a half of it
    assert ("layer 0", "4", "0.25", "0.125", "0.375") in one.panels[0].numbers


def test_untrained_models_are_dashed_beside_trained_ones() -> None:
    figure = by_key({"a": rows_of("collapse")})["collapse-residual-over-norm-by-depth"]
    values = values_in(figure.panels[0].spec)
    assert {value["model"] for value in values} == {"the model", "untrained"}
    assert {value["arm"] for value in values} == {"as it is", "without skips", "attention alone"}


def test_what_chance_gives_stands_beside_what_was_found() -> None:
    figure = by_key({"a": rows_of("experts")})["experts-first-expert-stays-by-layer"]
    assert {line[0] for line in figure.panels[0].numbers} == {"as it is", "as it is, by chance"}


def test_a_run_that_lacks_a_probe_leaves_its_name_to_others() -> None:
    runs = {"a": rows_of("collapse", "experts"), "b": []}
    with_name = by_key({**runs, "b": [row for row in runs["a"] if row.probe == "collapse"]})
    assert with_name["experts-load"].panels[0].spec["title"]["text"] == ["a, layer 0"]


def test_values_that_are_not_numbers_are_left_out() -> None:
    rows = rows_of("rank", "collapse")
    odd = [replace(row, value=math.nan) for row in rows if row.quantity == "log |det|"]
    kept = [row for row in rows if row.quantity != "log |det|"]
    assert "rank-log-det-map" not in by_key({"a": kept + odd})
    assert probe_figures({"a": odd}) == []


def test_an_unknown_probe_is_drawn_by_the_shape_of_its_rows() -> None:
    rows = [
        ProbeRow(probe="mine", quantity="width", value=head + layer, n=1, layer=layer, head=head)
        for layer in range(3)
        for head in range(2)
    ]
    rows += [
        ProbeRow(probe="mine", quantity="score", value=k, n=1, x=k, x_name="demonstrations")
        for k in range(5)
    ]
    figures = by_key({"a": rows})
    assert list(figures) == ["mine-width-map", "mine-score-by-demonstrations"]
    assert "What the probe “mine” found: width." in figures["mine-width-map"].caption


def test_every_caption_says_what_is_not_shown() -> None:
    for figure in figures_of_all():
        assert re.search(r"\bnot\b|\bmay\b|no cause", figure.caption), figure.key


def test_captions_are_of_quantities_that_probes_have() -> None:
    for probe, captions in CAPTIONS.items():
        known = set(PROBE_UNITS.get(probe, {})) | CURVES_ALONE.get(probe, set())
        assert {caption.split(" by ")[0] for caption in captions} <= known


def test_no_caption_of_a_known_probe_is_general() -> None:
    for figure in figures_of_all():
        assert "What the probe" not in figure.caption, figure.key


def test_controls_stand_beside_what_they_are_held_against() -> None:
    figures = by_key({"a": rows_of("flow", "descent", "experts")})
    flow = figures["flow-attention-entropy-by-layer"].panels[0]
    assert {line[0] for line in flow.numbers} == {"as it is", "as it is, uniform attention"}
    descent = figures["descent-simaou-by-layer"].panels[0]
    controls = {value["model"] for value in values_in(descent.spec)}
    assert controls == {"the model", "untrained", "random update", "untrained, random update"}
    dashes = descent.spec["layer"][0]["encoding"]["strokeDash"]["scale"]["range"]
    assert len({tuple(one) for one in dashes}) == 4
    saturation = figures["experts-saturation-by-step"].panels[0]
    assert {line[0] for line in saturation.numbers} >= {"layer 0", "layer 0, by chance"}


def test_no_two_of_many_runs_have_one_colour_and_one_dash() -> None:
    runs = {f"run {number}": rows_of("rank", shift=number / 10) for number in range(12)}
    spectra = by_key(runs)["rank-spectra"].panels[0]
    layers = spectra.spec["layer"]
    (line,) = [one["encoding"] for one in layers if one["mark"]["type"] == "line"]
    dash, colour = line["strokeDash"]["scale"], spectra.spec["encoding"]["color"]["scale"]
    assert dash["domain"] == colour["domain"]
    looks = zip(colour["range"], map(tuple, dash["range"]), strict=True)
    assert len(set(looks)) == 12


def test_what_is_equal_in_all_runs_is_one_line_beside_them() -> None:
    figures = by_key({"a": rows_of("in-context"), "b": rows_of("in-context", shift=0.5)})
    (error,) = figures["in-context-squared-error-by-demonstrations"].panels
    assert {line[0] for line in error.numbers} == {"a", "b", "ridge", "mean"}
    # how far runs are from a learner differs
    assert len(figures["in-context-squared-difference-by-demonstrations"].panels) == 2


def test_a_lone_stack_beside_a_decoder_has_no_name() -> None:
    rows = rows_of("rank", "collapse")
    alone = [row for row in rows if row.stack != "encoder" and row.branch != "cross"]
    figures = by_key({"a": rows, "b": alone})
    maps = [plot.title.split("head by head, ")[1] for plot in figures[FIGURES[0]].panels]
    assert maps == [
        "a, encoder, self-attention",
        "a, decoder, self-attention",
        "b, self-attention",
        "a, decoder, cross-attention",
    ]
    depths = figures["collapse-residual-over-norm-by-depth"].panels
    names = {plot.title.split("by depth, ")[1].split(", ")[0] for plot in depths}
    assert names == {"encoder", "main stack"}


def test_units_stand_at_the_axes() -> None:
    figures = by_key({"a": rows_of("context", "rank")})
    loss = figures["context-loss-by-tokens-of-context"].panels[0]
    assert loss.heading == ("variant", "tokens of context", "loss, bits per byte")
    assert figures["rank-log-det-map"].panels[0].heading[2] == "log |det|, nats"


def test_losses_of_corruption_are_joined() -> None:
    runs = {"a": rows_of("corruption"), "b": rows_of("corruption", shift=0.5)}
    one = by_key({"a": runs["a"]})["corruption-loss"].panels[0]
    assert [line[0] for line in one.numbers[::2]] == ["all that corrupts", "masked", "spans"]
    two = by_key(runs)["corruption-loss"].panels[0]
    assert ("b, masked", "plain input", "2.75") in two.numbers  # 2.5 × 0.9 + 0.5
    plain = [row for row in runs["a"] if row.variant == ""]
    assert by_key({"a": plain})["corruption-loss"].panels[0].numbers[0][0] == "the run"


def test_an_axis_is_not_narrower_than_rounding() -> None:
    rows = []
    for x, value in enumerate((0.99941, 0.99943, 0.99952)):
        rows.append(ProbeRow(probe="mine", quantity="mass", value=value, n=1, x=x, x_name="k"))
    scale = by_key({"a": rows})["mine-mass-by-k"].panels[0].spec["layer"][0]["encoding"]["y"]
    low, high = scale["scale"]["domain"]
    assert high - low == pytest.approx(0.02, rel=0.01)


@pytest.mark.parametrize("n_runs", [1, 2])
def test_every_figure_is_a_picture(n_runs: int) -> None:
    plots = figure_plots(figures_of_all(n_runs))
    files = plot_files(dict(list(plots.items())[::4]), "svg")
    assert len(files) == -(-len(plots) // 4)
    for content in files.values():
        assert content.startswith(b"<svg")
        assert b"var(--" not in content


def test_a_figure_of_too_many_panels_says_so() -> None:
    runs = {f"run {number}": rows_of("rank", n_layers=1) for number in range(9)}
    figure = by_key(runs)[FIGURES[0]]
    assert len(figure.panels) == MAX_PANELS
    assert f"The first {MAX_PANELS} of 27 panels are drawn." in figure.caption


def test_the_page_of_a_large_study_is_small_enough() -> None:
    runs = {f"arm {number}": all_probe_rows(12, 12, number / 10) for number in range(6)}
    maps = [one for run in runs for one in causal_maps(run, 3)]
    page = render_probe_page(runs, maps)
    assert all(f'id="title-{key}"' in page for key in ["attention-maps", *FIGURES])
    assert len(page.encode()) < MAX_PAGE_BYTES


def test_every_run_has_a_map_where_they_are_many() -> None:
    maps = [one for run in ("a", "b", "c") for one in causal_maps(run, 9)]
    drawn = maps_shown([*maps, *causal_maps("d", 1)])
    assert [(one.run, one.layer) for one in drawn] == [
        *[("a", layer) for layer in range(4)],
        *[("b", layer) for layer in range(4)],
        *[("c", layer) for layer in range(3)],
        ("d", 0),
    ]
    figure = probe_figures({}, maps)[0]
    assert figure.caption.endswith("12 of 27 maps are drawn, some of each run.")


def test_names_stay_text_on_the_page_and_in_a_notebook() -> None:
    runs = {f"a{EVIL}": all_probe_rows(1, 2), "b": all_probe_rows(1, 2)}
    page = render_probe_page(runs)
    assert EVIL not in page
    assert page.count("<script") == 3
    assert EVIL not in notebook_figures({f"a{EVIL}": all_probe_rows(1, 2)[:40], "b": []})


def test_layers_are_few_and_spread() -> None:
    assert layers_shown([2, 0, 1, 1]) == [0, 1, 2]
    assert layers_shown(range(12)) == [0, 2, 4, 7, 9, 11]


def test_titles_break_at_commas() -> None:
    assert title_lines("decoder, cross-attention, layer 0, head 1") == [
        "decoder",
        "cross-attention",
        "layer 0, head 1",
    ]


def test_ticks_of_a_logarithmic_axis_are_round_numbers() -> None:
    assert log_ticks(1, 64) == [1, 2, 5, 10, 20, 50]
    assert log_ticks(1e-6, 1) == pytest.approx([1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1])


def test_the_title_of_a_map_leaves_room_for_labels_in_a_wider_font() -> None:
    """A file is laid out with one font, and read with another that may be a fifth wider."""
    assert title_padding(["0", "1"]) < TITLE_PADDING + 2
    assert title_padding(["books.train.tar"]) > TITLE_PADDING + 0.2 * 88  # as it was laid out
    assert title_padding(["x" * 200]) <= TITLE_PADDING + 0.25 * MAX_LABEL_WIDTH


@pytest.mark.parametrize("probe", PROBE_UNITS)
def test_the_page_of_probes_has_the_quantities_by_the_names_in_rows(probe: str) -> None:
    page = PAGE_OF_PROBES.read_text("utf-8").replace("\\|", "|")
    assert [quantity for quantity in PROBE_UNITS[probe] if quantity not in page] == []
