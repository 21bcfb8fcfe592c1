"""The page: whole, inert, the same every time but for the clock."""

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from handmade_study import (
    GAINS,
    SEEDS,
    add_lengths,
    make_study,
    rewrite_plan,
    sweep_record,
)

from paribus.record import Study
from paribus.report.charts import (
    DASHES,
    N_COLOURS,
    arm_colours,
    arm_dashes,
    css_colour,
    pair_colours,
    printable_spec,
)
from paribus.report.curve_plots import difference_plots, learning_plot
from paribus.report.effect_plot import effect_plots
from paribus.report.page import render_page, study_plots
from paribus.report.page_frame import script_safe_json
from paribus.report.report_data import gather_report_data

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"
SECTIONS = (
    "verdict",
    "trust",
    "otherwise",
    "price",
    "limits",
    "curves",
    "control",
    "masks",
    "samples",
    "items",
    "seeds",
    "design",
    "versions",
    "rows",
    "times",
)


class Elements(HTMLParser):
    """Every element with its attributes, and the text of every script."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.found and self.found[-1][0] == "script":
            self.scripts[-1] += data


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return make_study(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def text(study: Study) -> str:
    return render_page(gather_report_data(study))


def test_every_section_is_there_and_can_be_reached(text):
    ids = [given["id"] for _, given in Elements(text).found if "id" in given]
    assert set(SECTIONS) <= set(ids)
    assert len(ids) == len(set(ids))
    links = {given["href"] for tag, given in Elements(text).found if tag == "a" and "href" in given}
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)


def test_the_policy_allows_its_own_scripts_and_no_evaluation(text):
    metas = [given for tag, given in Elements(text).found if tag == "meta"]
    policy = next(
        given["content"] for given in metas if given.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_nothing_of_the_page_is_elsewhere(text):
    for tag, given in Elements(text).found:
        for name in ("src", "href", "srcset", "action"):
            value = given.get(name) or "#"
            assert value.startswith(("#", "data:text/csv;base64,")), (tag, value[:60])
        assert not [name for name in given if name.startswith("on") or name == "style"]


def test_planted_tags_stay_text(tmp_path):
    gains = {"causal": 0.0, f"prefix{EVIL}": 0.004, f"hidden{EVIL}": -0.5}
    study = make_study(
        tmp_path,
        gains=gains,
        prompt=f"prompt{EVIL}",
        text=f"text{EVIL}",
        changes={"question": f"Is {EVIL}?"},
    )
    cells = (study.folder / "cells.json").read_text()
    run = study.read_cells()[0].run
    odd = "run<script>"
    (tmp_path / run).rename(tmp_path / odd)
    (study.folder / "cells.json").write_text(cells.replace(f'"{run}"', json.dumps(odd)))
    found = Elements(render_page(gather_report_data(study)))
    assert len(found.scripts) == 3
    assert not [tag for tag, _ in found.found if tag == "img"]
    specs = json.loads(found.scripts[0])
    assert EVIL in json.dumps(specs, ensure_ascii=False).replace('\\"', '"')
    assert odd in json.dumps(specs)


def test_a_value_in_a_script_cannot_end_it():
    assert "<" not in script_safe_json({"a": EVIL})
    assert json.loads(script_safe_json({"a": EVIL, "b": "\u2028 é"})) == {
        "a": EVIL,
        "b": "\u2028 é",
    }


def test_the_page_is_the_same_every_time(study, text):
    assert render_page(gather_report_data(study)) == text


def test_all_that_the_clock_decides_is_in_one_block(tmp_path):
    study = make_study(tmp_path)
    before = render_page(gather_report_data(study))
    for rows in tmp_path.glob("*/rows.jsonl"):
        told = [json.loads(line) for line in rows.read_text().splitlines()]
        rows.write_text(
            "".join(json.dumps({**row, "seconds": 7.7 * row["seconds"]}) + "\n" for row in told)
        )
    lock = json.loads((study.folder / "plan.lock").read_text())
    (study.folder / "plan.lock").write_text(
        json.dumps({**lock, "frozen_at": "1999-12-31T23:59:59+00:00"})
    )
    after = render_page(gather_report_data(study))
    block = re.compile(r'<section aria-labelledby="times-title".*?</section>', re.DOTALL)
    assert before != after
    assert block.sub("", before) == block.sub("", after)
    assert "1999-12-31" in block.search(after)[0]  # pyright: ignore[reportOptionalSubscript]


def test_an_anonymous_page_names_no_place_machine_or_date(tmp_path):
    study = make_study(tmp_path)
    plan = study.read_plan()
    plan["design"]["base"]["corpus"] = {
        "sources": [{"kind": "files", "paths": ["/home/ada/secret/text.txt"]}]
    }
    study.write_plan(plan)
    named, nameless = (
        render_page(gather_report_data(study)),
        render_page(gather_report_data(study, anonymous=True)),
    )
    for word in (
        "/home/ada/secret",
        '<dd class="hash">p1</dd>',
        "plan locked",
        ", cpu, 1 thread per run",
    ):
        assert word in named
        assert word not in nameless
    assert "text.txt" not in nameless
    assert "file-1" in nameless


def test_an_anonymous_page_cuts_relative_paths_too_and_leaves_the_machine_out_of_its_tables(
    tmp_path,
):
    study = make_study(tmp_path)
    plan = study.read_plan()
    corpus = {
        "sources": [{"kind": "files", "paths": ["ada/secret/text.txt"]}],
        "tokenizer": {"kind": "file", "path": "ada/secret/tokenizer.json"},
    }
    plan["design"]["base"]["corpus"] = corpus
    for name, value in (
        ("corpus.sources", corpus["sources"]),
        ("corpus.tokenizer.path", "ada/secret/tokenizer.json"),
        ("device", "abacus"),
        ("threads", "977 threads"),
        ("precision", "float32"),
    ):
        values = dict.fromkeys(plan["order"], value)
        plan["control"].append(
            {"path": name, "mark": "✓", "values": values, "note": "", "allowed": None}
        )
    study.write_plan(plan)
    named, nameless = (
        render_page(gather_report_data(study)),
        render_page(gather_report_data(study, anonymous=True)),
    )
    files = ("ada/secret", "text.txt", "tokenizer.json")
    for word in (*files, "abacus", "977 threads", "<dt>device</dt>", "<dt>n_threads</dt>"):
        assert word in named
        assert word not in nameless
    for word in ("file-1", "file-2", "float32"):
        assert word in nameless


def test_a_control_that_dwarfs_the_others_has_a_plot_of_its_own(tmp_path):
    assert [plot.key for plot in effect_plots(gather_report_data(make_study(tmp_path / "a")))] == [
        "effect",
        "effect-control",
    ]
    near = make_study(tmp_path / "b", gains={**GAINS, "input hidden": -0.006})
    assert [plot.key for plot in effect_plots(gather_report_data(near))] == ["effect"]
    assert [plot.key for plot in difference_plots(gather_report_data(near))] == ["difference"]


def test_the_effect_plot_has_seeds_means_and_the_margin(study):
    (plot, _) = effect_plots(gather_report_data(study))
    values = [
        layer["data"]["values"] for layer in plot.spec["layer"] if "values" in layer.get("data", {})
    ]
    told = json.dumps([*values, plot.spec.get("datasets", {})])
    assert '"from": -0.02' in told
    assert '"baseline run"' in told
    assert len(plot.numbers) == 4


def test_curves_and_rates_are_drawn_where_there_are_any(tmp_path):
    material = gather_report_data(make_study(tmp_path, rates=sweep_record(list(GAINS))))
    assert list(study_plots(material)) == [
        "effect",
        "effect-control",
        "learning",
        "difference",
        "difference-control",
        "rates",
    ]
    plot = learning_plot(material)
    assert plot is not None
    assert len(plot.numbers) == 3 * 4 * 10


def test_an_arm_that_never_trained_is_left_out_of_the_curves_in_words(tmp_path):
    material = gather_report_data(make_study(tmp_path, failed=[("prefix", seed) for seed in SEEDS]))
    plot = learning_plot(material)
    assert plot is not None
    assert plot.caption.endswith('Left out, without a run that trained: "prefix".')
    assert {line[0] for line in plot.numbers} == {"causal", "input hidden"}
    assert '"prefix" against "causal" is unstable' in unescape(render_page(material))


def test_more_arms_than_colours_differ_in_their_dashes():
    order = [f"arm {place}" for place in range(N_COLOURS + 3)]
    shades = arm_colours(order).to_dict()["scale"]["range"]
    dashes = arm_dashes(order).to_dict()["scale"]["range"]
    assert shades[0] == shades[N_COLOURS]
    assert len({(shade, *dash) for shade, dash in zip(shades, dashes, strict=True)}) == len(order)
    assert arm_colours(order, ["arm 9"]).to_dict()["scale"]["range"] == [shades[9]]
    assert arm_dashes(order[:3]).to_dict() == {"value": DASHES[0]}


def test_comparisons_of_one_arm_differ_in_colour_dashes_and_legend():
    order = ["causal", "prefix", "shared"]
    pairs = [("prefix", "prefix"), ("shared", "shared"), ("shared", "shared against prefix")]
    colours, dashes = pair_colours(order, pairs)
    scales = colours.to_dict()["scale"], dashes.to_dict()["scale"]
    assert scales[0]["domain"] == scales[1]["domain"] == ["place-0", "place-1", "place-2"]
    assert scales[0]["range"][:2] == [css_colour("arm-1"), css_colour("arm-2")]
    assert len(set(scales[0]["range"])) == 3
    assert css_colour("arm-0") not in scales[0]["range"]  # of the baseline
    assert scales[1]["range"] == [DASHES[0], DASHES[0], DASHES[1]]
    legend = colours.to_dict()["legend"]
    assert "shared against prefix" in legend["labelExpr"]
    assert legend["symbolType"] == "stroke"
    _, whole = pair_colours(order, pairs[:2])
    assert whole.to_dict() == {"value": DASHES[0]}


def test_the_gain_along_training_has_a_key_for_each_comparison(tmp_path):
    study = make_study(tmp_path)
    design = study.read_plan()["design"]
    pairs = [["prefix", "causal"], ["input hidden", "causal"], ["prefix", "input hidden"]]
    rewrite_plan(study, design={**design, "comparisons": pairs, "control": None})
    (plot,) = difference_plots(gather_report_data(study))
    keys = {(row["pair"], row["key"]) for row in plot.spec["layer"][0]["data"]["values"]}
    labels = ["prefix", "input hidden", "prefix against input hidden"]
    assert keys == {(label, f"place-{place}") for place, label in enumerate(labels)}
    assert {line[0] for line in plot.numbers} == {*labels}
    shades = plot.spec["layer"][0]["encoding"]["color"]["scale"]["range"]
    assert len(set(shades)) == 3


def test_a_run_that_was_validated_once_is_a_point(tmp_path):
    material = gather_report_data(make_study(tmp_path))
    plot = learning_plot(material)
    assert plot is not None
    assert plot.caption.startswith("One thin line per seed, on")
    assert len(plot.spec["layer"]) == 2
    runs = {
        arm: {seed: [row for row in rows if "valid_nats" in row][-1:] for seed, rows in own.items()}
        for arm, own in material.findings.runs.items()
    }
    once = replace(material, findings=replace(material.findings, runs=runs))
    plot = learning_plot(once)
    assert plot is not None
    assert plot.caption.startswith("One point per seed, which was validated once, on")
    marks = plot.spec["layer"][-1]
    assert marks["mark"]["opacity"] > 0.5
    assert len(marks["data"]["values"]) == 3 * len(SEEDS)


def test_what_the_control_is_worth_in_compute_is_told_too(tmp_path):
    material = gather_report_data(add_lengths(make_study(tmp_path), {"causal": 0.04}))
    text = render_page(material)
    control = text.partition("The positive control: an arm")[2].partition("</div>")[0]
    assert "In compute: " in control


def test_a_plot_for_paper_names_its_colours(study):
    for plot in study_plots(gather_report_data(study)).values():
        assert "var(--" in json.dumps(plot.spec)
        assert "var(--" not in json.dumps(printable_spec(plot.spec))
        assert printable_spec(plot.spec)["width"] == 720


def test_items_without_a_text_are_named(tmp_path: Path):
    study = make_study(tmp_path)
    (study.folder / "items.json").unlink()
    (study.folder / "samples.json").unlink()
    bare = render_page(gather_report_data(study))
    assert "its text is not kept" in bare
    assert 'id="samples"' not in bare
