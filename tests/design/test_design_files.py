"""The designs that come with paribus: found by name, and every one of them runs at `smoke`."""

import contextlib
import io
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from trained_study import design_table

from paribus.analyse import RowTable, study_verdicts
from paribus.analyse.manipulation import NOT_SHOWN
from paribus.cli.run import run
from paribus.design.arms import arms_of
from paribus.design.design_files import designs_folder, find_design, shipped_designs
from paribus.design.plan import make_plan
from paribus.errors import SpecError
from paribus.record import existing_study
from paribus.record.control_table import CUT_CONTEXTS
from paribus.spec.design import (
    Design,
    arm_levels,
    control_arm,
    control_length,
    declared_contrasts,
    judged_pairs,
    length_arms,
)
from paribus.spec.design_reading import load_design
from paribus.spec.languages import InventedLanguage
from paribus.spec.must import hanging_contrasts, hanging_pairs
from paribus.spec.training import Constant, Cosine
from paribus.spec.yardstick import column_of
from paribus.workspace import Execution, Workspace

TRANSLATED = {
    "base.corpus": {"sources": [{"kind": "translation", "n_documents": 400, "form": "text"}]}
}
CONTROL = ("works", "did not work")
# As they come, these take seconds; of the others a few steps are made.
WHOLE = ("bidirectional-input", "positions")
LADDERS = ("ladder", "emergence")  # whose sizes have durations of their own
N_STEPS = {True: 6, False: 2}  # with a half of the length, which has three at least; without
TINY = {
    "base.training.n_sequences": 2,
    "base.training.warmup": 1,
    "primary.measure.n_items": 2,
    "primary.margin": 0.5,
    "lengths": [0.5, 1],
}

# A design with many arms reads little text, and is asked about little.
SPOKEN = {"phrasings": ["say {source}:"], "n_documents": 300}
ZERO_SHOT = {
    "base.corpus.sources": [{**SPOKEN, "kind": "recall", "form": "text"}],
    "base.stages.1.corpus.sources": [{**SPOKEN, "kind": "copy", "max_length": 30}],
    "primary.measure.task.language": [{**SPOKEN, "kind": "recall", "max_length": 6}],
    "base.stages.1.training.n_steps": 2,
    "base.stages.1.training.warmup": 1,
    "others": [
        {
            "kind": "task",
            "task": {
                "name": "unseen phrasings",  # on which the design's checks are read
                "kind": "choices",
                "language": {"kind": "copy", "n_documents": 300},
                "n_items": 2,
            },
        }
    ],
}
SORTED = {"kind": "sort", "form": "preferences", "n_symbols": 10, "min_length": 6, "max_length": 8}
SORTING = {
    "kind": "generation",
    "language": {**SORTED, "n_documents": 1000},
    "measure": "reward",
    "max_tokens": 12,
    "n_items": 2,
}
PREFERENCE = {
    "base.stages.1.training.n_steps": 2,
    "base.stages.1.training.warmup": 1,
    "base.stages.2.training.n_steps": 2,
    "base.stages.2.training.warmup": 1,
    "others": [{"kind": "task", "task": {"name": "sort", **SORTING}}],
}
UNDERSTANDING = {
    "lengths": [0.25, 1],
    "base.stages.1.corpus.test": 0.01,
}
FIRST_STAGE = {"base.stages.0.training.n_steps": 2, "base.stages.0.training.warmup": 1}
OWN_CHANGES: dict[str, dict[str, Any]] = {
    "adaptation": {"allow": {"training_flops in all": "two steps cannot meet a budget"}},
    "descent": FIRST_STAGE,
    "in-context": FIRST_STAGE,
    "preference": PREFERENCE,
    "understanding": UNDERSTANDING,
    "zero-shot": ZERO_SHOT,
}


def tiny_changes(name: str) -> dict[str, Any]:
    """What makes a design tiny; a head is asked about all texts that are held out."""
    changes: dict[str, Any] = dict(TINY)
    has_lengths = find_design(name, "smoke")[1].lengths is not None
    if not has_lengths:
        del changes["lengths"]
    for field in ("n_steps", "checkpoint_every", "valid_every"):
        changes[f"base.training.{field}"] = N_STEPS[has_lengths]
    if name in ("understanding", "preference", "zero-shot"):
        del changes["primary.measure.n_items"]
    if name in ("preference", "zero-shot"):
        changes["primary.measure.task.n_items"] = 2
    return changes | OWN_CHANGES.get(name, {})


LANGUAGE_KINDS = {language.model_fields["kind"].default for language in get_args(InventedLanguage)}


def with_short_texts(value: Any) -> Any:
    """A design, or a part of it, with no more than 2000 documents of each invented language."""
    if isinstance(value, BaseModel):
        return value.model_copy(update=with_short_texts(dict(value)))
    if isinstance(value, dict):
        short = {key: with_short_texts(inner) for key, inner in value.items()}
        if "n_documents" in short or short.get("kind") in LANGUAGE_KINDS:
            short["n_documents"] = min(short.get("n_documents", 2000), 2000)
        return short
    if isinstance(value, list | tuple):
        return type(value)(map(with_short_texts, value))
    return value


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all, so that runs that two designs share are made once."""
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in WHOLE else pytest.mark.slow)
        for name in shipped_designs()
    ],
)
def test_a_shipped_design_runs_at_smoke(name: str, home: Path, study_cache: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        table = run(
            name,
            scale="smoke",
            execution=Execution(Workspace(home, cache=study_cache, device="cpu")),
        )
    _, design = find_design(name, "smoke")
    assert {row["outcome"] for row in table if row["purpose"] == "reported"} == {"finished"}
    assert {row["outcome"] for row in table} <= {
        "finished",
        "undertrained",
    }  # a shorter one may be the latter
    judged = study_verdicts(existing_study(home, f"{name}-smoke"))
    checks = [row for row in judged if row.get("must")]
    assert [row["must"] for row in checks] == [must.that for must in design.must]
    judged = [row for row in judged if row not in checks]
    pairs = [row for row in judged if row["contrast"] is None and row["verdict"] not in CONTROL]
    assert tuple((row["arm"], row["against"]) for row in pairs) == judged_pairs(design)
    assert [row["verdict"] in CONTROL for row in judged].count(True) == 1
    for row in judged:  # of so short runs some learn and some do not; then there is no mean
        assert (row["gain"] is None) == (row["verdict"] in ("bimodal", NOT_SHOWN))
    complete(table, design, f"{name}-smoke")


@pytest.mark.parametrize(
    "name", [name for name in shipped_designs() if name not in (*WHOLE, *LADDERS)]
)
def test_a_shipped_design_makes_a_few_steps(name: str, home: Path, study_cache: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        table = run(
            name,
            scale="smoke",
            changes=tiny_changes(name),
            name=f"{name}-tiny",
            execution=Execution(Workspace(home, cache=study_cache, device="cpu")),
        )
    assert {row["outcome"] for row in table} <= {
        "finished",
        "undertrained",
    }  # they need not beat the unigram model
    assert {row["reason"] for row in table} <= {
        "",
        "not trained long enough, still worse than the unigram model",
    }
    complete(table, find_design(name, "smoke", tiny_changes(name))[1], f"{name}-tiny")


@pytest.mark.parametrize("scale", [None, "smoke", "laptop", "hour"])
def test_pairs_of_tuned_arms_and_of_other_ranks_hang_on_a_check(scale: str | None) -> None:
    """What is said of tuning needs arms that have learnt by it, and of rank ranks that differ."""
    for name in ("zero-shot", "rank"):
        _, design = find_design(name, scale)
        columns = [column_of(one.model_dump(mode="json")) for one in design.others]
        for pair in judged_pairs(design):
            claims = [one.claim for one in design.must if hanging_pairs(one.scope, [pair])]
            if name == "rank":
                assert [set(claim.arms) for claim in claims] == [set(pair)]
                continue
            tuned = {arm for arm in pair if arm.endswith(" tuned")}
            assert {claim.arm for claim in claims} == tuned
            assert all(claim.against == claim.arm.removesuffix(" tuned") for claim in claims)
        assert {one.on for one in design.must} == {columns[0]}
    _, zero_shot = find_design("zero-shot", scale)
    for must in zero_shot.must[0], zero_shot.must[4]:  # of both arms that were tuned
        assert hanging_contrasts(must.scope, declared_contrasts(zero_shot)) == ["reversal"]


def complete(table: RowTable, design: Design, study: str) -> None:
    cells = {(row["arm"], row["seed"], row["n_steps"], row["purpose"]) for row in table}
    if design.ladder is None:
        assert len(cells) == len(table)
    else:
        assert len({(row.get("size"), row["run"]) for row in table}) == len(table)
    lengths = {(row["arm"], row["seed"]) for row in table if row["purpose"] == "length"}
    assert lengths == {(arm, seed) for arm in length_arms(design) for seed in design.seeds}
    assert {row["seed"] for row in table} == set(design.seeds) == {1, 2, 3}
    assert {row["study"] for row in table} == {study}


PART_OF_DOCS = {"base.corpus.sources": ["python-docs"]}
# Of a part, a larger share is held out: its probe reads 64 texts of each source.
PARTS = {"base.corpus.sources": ["python-docs", "python-code"], "base.corpus.test": 0.2}
# What at a scale takes minutes to read, in a part.
OWN_TEXT = {
    ("adaptation", "hour"): PART_OF_DOCS,
    ("inside-prefix", "hour"): PART_OF_DOCS,
    ("rank", "hour"): PART_OF_DOCS,
    ("understanding", "hour"): PART_OF_DOCS,
    ("expert-domains", "hour"): PARTS,
    ("expert-domains", "paper"): PARTS,
}


def _scale_cases() -> Iterator[Any]:
    """Every design at every scale; a large tokenizer takes a while to learn."""
    for name in shipped_designs():
        table = tomllib.loads((designs_folder() / f"{name}.toml").read_text())
        for scale in (None, *table["scales"]):
            marks = [pytest.mark.slow] if scale in ("hour", "paper") else []
            yield pytest.param(name, scale, marks=marks, id=f"{name}-{scale}")


@pytest.mark.parametrize(("name", "scale"), list(_scale_cases()))
def test_a_shipped_design_can_be_planned_at_every_scale(
    name: str, scale: str | None, study_cache: Path
) -> None:
    """On the text that it names, of which no arm loses more than another."""
    called, design = find_design(name, scale, OWN_TEXT.get((name, scale), {}))
    plan = make_plan(
        with_short_texts(design),
        called,
        scale,
        Execution(Workspace(cache=study_cache, device="cpu")),
        show_progress=False,
    )
    assert plan.arms[0].name == design.baseline
    assert not plan.allowed_lines
    for line in plan.control_lines:
        if line.path.startswith(CUT_CONTEXTS):
            assert len(set(line.values.values())) == 1


@pytest.mark.parametrize("name", shipped_designs())
def test_a_shipped_design_warms_up_for_a_fifth_of_its_steps_and_ends_at_zero(name: str) -> None:
    table = tomllib.loads((designs_folder() / f"{name}.toml").read_text())
    for scale in (None, *table["scales"]):
        _, design = find_design(name, scale)
        for arm in arms_of(design):
            for stage in arm.run.stages:
                training = stage.training
                if training.schedule == Constant():
                    assert stage is not arm.run.last  # another stage goes on from it
                elif arm.name != "uninterrupted":  # whose warm-up follows its steps when planned
                    assert training.schedule == Cosine(floor=0.0)
                    assert training.warmup == max(1, round(training.n_steps / 5))


@pytest.mark.parametrize(
    ("name", "n_pairs"),
    [
        ("mixed-attention", 6),
        ("positions", 2),
        ("positions-masked", 2),
        ("bidirectional-input", 1),
        ("rank", 8),
        ("inside-masked", 3),
        ("inside-prefix", 2),
        ("head-size", 5),
        ("in-context", 2),
        ("descent", 2),
        ("ladder", 5),
        ("encoder-decoder", 8),
        ("cross-positions", 4),
    ],
)
def test_a_shipped_design_judges_what_its_question_asks_for(name: str, n_pairs: int) -> None:
    _, design = find_design(name)
    pairs = judged_pairs(design)
    assert len(pairs) == n_pairs
    for arm, against in pairs if design.factors else ():
        levels = arm_levels(design)
        assert sum(levels[arm][factor] != levels[against][factor] for factor in design.factors) == 1


@pytest.mark.parametrize("name", shipped_designs())
def test_every_shipped_design_has_a_control(name: str) -> None:
    """The input hidden where arms are listed and there is an input; targets or pairs that teach
    nothing where a later stage is asked about; otherwise the baseline at a part of its training.
    """
    _, design = find_design(name)
    by_length = dict.fromkeys(
        (
            *("mixed-attention", "positions", "positions-masked", "rank", "inside-masked"),
            "expert-domains",
        ),
        0.5,
    )
    by_length["understanding"] = 0.25  # of the fine-tuning
    assert control_length(design) == by_length.get(name)
    arms = dict.fromkeys(by_length) | {
        "preference": "pairs swapped",
        "zero-shot": "causal LM tuned on shuffled targets",
    }
    assert control_arm(design) == arms.get(name, "input hidden")
    assert all(control_arm(design) not in pair for pair in judged_pairs(design))


def test_the_ladder_has_three_durations_at_its_three_smallest_sizes(study_cache: Path) -> None:
    """At the size of its hour: a table of 3,989 words, here of bytes, is in no duration."""
    corpus = {**TRANSLATED["base.corpus"], "tokenizer": {"kind": "bytes"}}
    changes = {"base.corpus": corpus, "primary.measure.max_bytes": 48}
    called, design = find_design("ladder", "hour", changes)
    assert design.ladder is not None
    assert design.tune is not None
    assert design.ladder.rate_sizes == (64, 96, 128)
    execution = Execution(Workspace(cache=study_cache, device="cpu"))
    plan = make_plan(with_short_texts(design), called, "hour", execution, show_progress=False)
    assert [rung.size for rung in plan.rungs] == [64, 96, 128, 192, 256, 352]
    assert [len(rung.tokens) for rung in plan.rungs] == [3, 3, 3, 2, 2, 1]
    arms, seeds = 5, 3
    n_tokens = sum(sum(rung.tokens) for rung in plan.rungs if not rung.is_predicted)
    assert arms * seeds * n_tokens == pytest.approx(6.1e9, rel=0.02)
    names = {arm.name: arm for arm in plan.rungs[3].arms}
    causal = names["causal"].price.parameters
    for name in ("encoder-decoder P", "encoder-decoder shared"):
        assert names[name].price.parameters == pytest.approx(causal, rel=0.005)
    two = names["encoder-decoder 2P"].price
    assert two.parameters > 1.8 * causal


def test_the_main_size_is_trained_long_and_judges_what_is_claimed() -> None:
    _, design = find_design("encoder-decoder", "hour")
    assert len(design.seeds) >= 6
    base = design.base
    assert (base["architecture"]["d_model"], base["architecture"]["n_layers"]) == (192, 6)
    training = base["training"]
    n_tokens = training["n_steps"] * training["n_sequences"] * training["length"]
    n_parameters = 72 * 192**2 + 4096 * 192
    assert n_tokens > 20 * n_parameters
    assert {
        ("causal encoder", "encoder-decoder by layers"),
        ("mixed encoder", "encoder-decoder by layers"),
        ("encoder-decoder 2P", "decoder 2P"),
        ("encoder-decoder shared", "encoder-decoder by layers"),
    } <= set(judged_pairs(design))


def test_a_design_is_called_by_its_name_and_scale_or_its_file(tmp_path: Path) -> None:
    assert find_design("positions", "smoke")[0] == "positions-smoke"
    assert find_design("positions")[0] == "positions"
    path = tmp_path / "my design!.json"
    path.write_text(json.dumps(design_table()))
    assert find_design(path)[0] == find_design(str(path))[0] == "my-design"
    (tmp_path / "...json").write_text(json.dumps(design_table()))
    assert find_design(tmp_path / "...json")[0] == "design"
    assert find_design(design_table())[0] == "design"
    assert find_design(load_design(design_table()))[0] == "design"


def test_an_unknown_design_is_met_with_the_nearest() -> None:
    with pytest.raises(
        SpecError,
        match=r"postions is neither a design nor a .toml or .json file; did you mean 'positions'",
    ):
        find_design("postions")
    with pytest.raises(
        SpecError,
        match="designs are adaptation, bidirectional-input, cross-positions, descent, emergence,",
    ):
        find_design("something else")
