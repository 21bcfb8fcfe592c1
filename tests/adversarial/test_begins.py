"""`begin` as the factor is no licence for two models to differ in everything.

What the models are that two arms begin with is counted: their architecture, their tokenizer, and
what the record of the runs that trained them says. The weights alone are one factor.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sly_designs import plan_table, sly_table

import paribus as pb
from paribus.design import Plan, find_design, make_plan
from paribus.errors import ConfoundError, SpecError
from paribus.workspace import Execution, Workspace

PlanBegun = Callable[..., Plan]

SOURCE = {"kind": "translation", "n_documents": 400, "form": "text"}
ARCHITECTURE: dict[str, Any] = {
    "preset": "gpt2",
    "positions": "rotary",
    "n_layers": 1,
    "d_model": 16,
    "attention": {"n_heads": 2},
    "dropout": 0.0,
}
RUN: dict[str, Any] = {
    "architecture": ARCHITECTURE,
    "corpus": {"sources": [SOURCE]},
    "training": {
        "n_steps": 6,
        "n_sequences": 2,
        "length": 32,
        "row_every": 3,
        "valid_every": 3,
        "valid_batches": 1,
        "checkpoint_every": 3,
    },
}
OTHER_TEXT = {"sources": [{"kind": "copy", "n_documents": 400, "form": "text"}]}
DEEPER = {
    **ARCHITECTURE,
    "n_layers": 2,
    "positions": "none",
    "feed_forward": {"activation": "relu"},
}
RUNS = {
    "first": RUN,
    "again": {**RUN, "training": {**RUN["training"], "seed": 2}},
    "other text": {**RUN, "corpus": OTHER_TEXT},
    "deeper": {**RUN, "architecture": {**ARCHITECTURE, "n_layers": 2}},
    "all": {**RUN, "architecture": DEEPER, "corpus": OTHER_TEXT},
}
# what an arm writes beside what it begins from; `match` and `budget` let any difference pass
DESIGN = """
factor = {factor}
match = "nothing"
budget = "tokens_read"
{more}
[base]
objective = "causal"
[arms.plain]
begin = "{one}"
[arms.other]
begin = "{other}"
{arm}
"""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The last checkpoint of each run, and an earlier one."""
    folder = tmp_path_factory.mktemp("begins")
    space = Workspace(folder / "runs", folder / "cache", "cpu")
    places = {}
    for name, table in RUNS.items():
        outcome = pb.train_run(table, name=name.replace(" ", "-"), workspace=space)
        places[name] = outcome.folder / "checkpoints/step-000000005"
    return {**places, "earlier": places["first"].with_name("step-000000002")}


@pytest.fixture
def plan_begun(checkpoints: dict[str, Path], study_cache: Path) -> PlanBegun:
    """Plans a design of two arms: one begins with the first run, and one with another."""

    def plan(other: str, factor: str = "begin", more: str = "", arm: str = "") -> Plan:
        places = {"one": checkpoints["first"], "other": checkpoints[other]}
        table = sly_table(DESIGN.format(factor=[factor], more=more, arm=arm, **places))
        del table["base"]["architecture"]  # each has that of its model
        return plan_table(table, study_cache)

    return plan


def test_two_models_that_differ_in_several_fields_are_several_factors(
    plan_begun: PlanBegun,
) -> None:
    said = (
        "other against plain differs in 4 factors: begin.n_layers, begin.feed_forward.activation,"
        " begin.positions, begin.corpus.sources.0.kind; the effect is of all of them together"
    )
    with pytest.raises(ConfoundError, match=re.escape(said)):
        plan_begun("all")
    meant = 'compound = { other = "the two models that we have" }'
    (one,) = plan_begun("all", more=meant).judged
    assert (len(one.factors), one.reason) == (4, "the two models that we have")


@pytest.mark.parametrize(
    ("other", "factor"),
    [
        ("again", "begin"),
        ("other text", "begin.corpus.sources.0.kind"),
        ("deeper", "begin.n_layers"),
    ],
)
def test_two_models_that_differ_in_one_thing_are_one_factor(
    plan_begun: PlanBegun, other: str, factor: str
) -> None:
    (one,) = plan_begun(other).judged
    assert (one.kind, one.factors) == ("simple", (factor,))


def test_a_checkpoint_in_the_middle_of_its_schedule_counts_that_as_well(
    plan_begun: PlanBegun,
) -> None:
    said = r"differs in 2 factors: begin\.n_steps, begin\.schedule\.share; the"
    with pytest.raises(ConfoundError, match=said):
        plan_begun("earlier")
    meant = 'compound = { other = "a model that has half of its training" }'
    assert plan_begun("earlier", more=meant).judged[0].is_compound


def test_what_is_allowed_to_begin_differently_is_not_allowed_another_architecture(
    plan_begun: PlanBegun,
) -> None:
    allowed = 'allow = { begin = "these are all there are" }'
    mask = 'architecture.mask = "causal & window(5)"'
    with pytest.raises(ConfoundError, match=r"differs in 2 factors: mask, begin\.n_layers; the"):
        plan_begun("deeper", "architecture.mask", allowed, mask)
    (one,) = plan_begun("again", "architecture.mask", allowed, mask).judged
    assert one.factors == ("mask",)


def test_weights_against_none_are_one_factor_in_one_architecture(
    checkpoints: dict[str, Path], study_cache: Path
) -> None:
    """The arm without weights has the architecture and the tokenizer of the other."""

    def plan(architecture: dict[str, Any]) -> Plan:
        tokenizer = {"kind": "file", "path": str(checkpoints["first"] / "tokenizer.json")}
        drawn = {
            "architecture": architecture,
            "corpus": {"tokenizer": tokenizer},
        }
        table = sly_table('factor = "begin"\nmatch = "nothing"\nbudget = "tokens_read"')
        del table["base"]["architecture"]
        arms = {"plain": drawn, "other": {"begin": str(checkpoints["first"])}}
        return plan_table({**table, "arms": arms}, study_cache)

    (one,) = plan(ARCHITECTURE).judged
    assert one.description == "differs in begin"
    with pytest.raises(ConfoundError, match=r"differs in 2 factors: begin, begin\.n_layers"):
        plan({**ARCHITECTURE, "n_layers": 2})


def plan_of_weights(one: Path, other: Path, runs: Path, cache: Path, **arm: Any) -> Plan:
    """The plan of two arms that begin with these checkpoints, beside a folder of runs."""
    table = sly_table(DESIGN.format(factor=["begin"], more="", arm="", one=one, other=other))
    del table["base"]["architecture"]
    if arm:
        table["arms"]["other"] = arm
    name, design = find_design(table)
    execution = Execution(Workspace(runs, cache, "cpu"))
    return make_plan(design, name, None, execution, show_progress=False)


def factors_of(one: Path, other: Path, runs: Path, cache: Path) -> tuple[str, ...]:
    """What two checkpoints differ in, however much that is."""
    try:
        (judged,) = plan_of_weights(one, other, runs, cache).judged
        return judged.factors
    except ConfoundError as fault:
        (problem,) = fault.problems
        found = re.search(r"differs in \d+ factors: (.*?); the effect", problem)
        assert found is not None, problem
        return tuple(found[1].split(", "))


def stages_of(first: dict[str, Any], **later: Any) -> dict[str, Any]:
    """A run of two stages, the second of which has these fields."""
    second = {"kind": "adapt", "training": RUN["training"], **later}
    return {"architecture": ARCHITECTURE, "stages": [first, second]}


FIRST = {"corpus": RUN["corpus"], "training": RUN["training"]}
LAST = {"architecture": {"mask": "causal", "dropout": 0.0}}


@pytest.fixture(scope="module")
def trained(
    checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[dict[str, Any]], Path]:
    """Trains a run, and gives its last checkpoint."""
    space = Workspace(checkpoints["first"].parents[2], tmp_path_factory.mktemp("cache"), "cpu")

    def train(table: dict[str, Any]) -> Path:
        name = f"own-{len(list(Path(space.runs_folder).iterdir()))}"
        return pb.train_run(table, name=name, workspace=space).folder / (
            "checkpoints/step-000000005"
        )

    return train


def test_earlier_stages_of_what_trained_a_checkpoint_count(
    trained: Callable[[dict[str, Any]], Path], study_cache: Path
) -> None:
    one = trained(stages_of(FIRST, **LAST))
    blind = {**ARCHITECTURE, "mask": "causal & window(3)", "dropout": 0.3}
    other = trained({**stages_of(FIRST, **LAST), "architecture": blind})
    runs = one.parents[2]
    named = ("begin.stages.0.architecture.mask", "begin.stages.0.architecture.dropout")
    assert sorted(factors_of(one, other, runs, study_cache)) == sorted(named)
    alone = trained({**stages_of(FIRST, **LAST), "architecture": {**ARCHITECTURE, "dropout": 0.3}})
    assert factors_of(one, alone, runs, study_cache) == ("begin.stages.0.architecture.dropout",)


def test_a_stage_more_is_one_factor_and_what_it_changes_counts(
    checkpoints: dict[str, Path], trained: Callable[[dict[str, Any]], Path], study_cache: Path
) -> None:
    one, runs = checkpoints["first"], checkpoints["first"].parents[2]
    assert factors_of(one, trained(stages_of(FIRST)), runs, study_cache) == ("begin.stages.1",)
    slow = {**RUN["training"], "optimizer": {"decay": 0.5}}
    sly = trained(stages_of(FIRST, training=slow))
    assert factors_of(one, sly, runs, study_cache) == (
        "begin.stages.1",
        "begin.stages.1.training.optimizer.decay",
    )


@pytest.mark.parametrize(
    ("own", "other", "factors"),
    [
        (
            {"positions": {"kind": "rotary", "theta": 30.0}},
            {"positions": "none"},
            ("begin.positions", "begin.positions.theta"),
        ),
        ({"positions": {"kind": "rotary"}}, {"positions": "none"}, ("begin.positions",)),
    ],
)
def test_what_only_one_model_has_counts_off_its_defaults(
    trained: Callable[[dict[str, Any]], Path],
    study_cache: Path,
    own: dict[str, Any],
    other: dict[str, Any],
    factors: tuple[str, ...],
) -> None:
    one, second = [
        trained({**RUN, "architecture": {**ARCHITECTURE, **change}}) for change in (other, own)
    ]
    assert factors_of(one, second, one.parents[2], study_cache) == factors


@pytest.mark.parametrize(
    ("change", "factors"),
    [
        (
            {"optimizer": {"kind": "muon", "momentum": 0.0}},
            ("begin.optimizer", "begin.optimizer.momentum"),
        ),
        ({"optimizer": {"kind": "muon"}}, ("begin.optimizer",)),
    ],
)
def test_what_only_one_recipe_of_a_checkpoint_has_counts_off_its_defaults(
    checkpoints: dict[str, Path],
    trained: Callable[[dict[str, Any]], Path],
    study_cache: Path,
    change: dict[str, Any],
    factors: tuple[str, ...],
) -> None:
    other = trained({**RUN, "training": {**RUN["training"], **change}})
    one, runs = checkpoints["first"], checkpoints["first"].parents[2]
    assert factors_of(one, other, runs, study_cache) == factors


def test_what_a_kind_of_objective_has_counts_of_a_checkpoint(
    checkpoints: dict[str, Path], trained: Callable[[dict[str, Any]], Path], study_cache: Path
) -> None:
    one, runs = checkpoints["first"], checkpoints["first"].parents[2]
    plain = trained({**RUN, "objective": "prefix"})
    assert factors_of(one, plain, runs, study_cache) == ("begin.objective",)
    narrow = {"kind": "prefix", "least": 0.9, "most": 0.95}
    mixed = {"kind": "mixture", "components": [{"objective": "causal"}, {"objective": narrow}]}
    ends = ("least", "most")
    for objective, place in ((narrow, ""), (mixed, "components.1.objective.")):
        sly = trained({**RUN, "objective": objective})
        found = factors_of(one, sly, runs, study_cache)
        assert found == ("begin.objective", *[f"begin.objective.{place}{end}" for end in ends])


def test_a_checkpoint_of_another_size_by_its_kind_is_two_factors(
    trained: Callable[[dict[str, Any]], Path], study_cache: Path
) -> None:
    """What a kind must write is shown; the width of experts is compared in size."""

    def model(**feed_forward: Any) -> Path:
        own = {"activation": "silu", "gated": True, **feed_forward}
        return trained({**RUN, "architecture": {**ARCHITECTURE, "feed_forward": own}})

    dense = model(bias=False)
    wide = model(kind="experts", n_experts=4, n_active=2, d_expert=400)
    first, *_, last = factors_of(dense, wide, dense.parents[2], study_cache)
    assert first == "begin.feed_forward"
    assert last.startswith("size (")


def test_the_recipe_of_a_stage_more_counts_as_that_of_an_added_one(
    checkpoints: dict[str, Path], trained: Callable[[dict[str, Any]], Path], study_cache: Path
) -> None:
    one, runs = checkpoints["first"], checkpoints["first"].parents[2]
    training = {**RUN["training"], "n_sequences": 4, "optimizer": {"rate": 0.1}}
    other = trained(stages_of(FIRST, training=training, corpus={**RUN["corpus"], "valid": 0.2}))
    named = ("corpus.valid", "training.n_sequences", "training.optimizer.rate")
    assert factors_of(one, other, runs, study_cache) == (
        "begin.stages.1",
        *[f"begin.stages.1.{path}" for path in named],
    )


def test_wrong_targets_in_a_stage_more_count(
    checkpoints: dict[str, Path], trained: Callable[[dict[str, Any]], Path], study_cache: Path
) -> None:
    one, runs = checkpoints["first"], checkpoints["first"].parents[2]
    corpus = {"sources": [{"kind": "copy", "n_documents": 400}]}
    training = {**RUN["training"], "length": 64}
    first = {**FIRST, "training": training}
    tune = {"kind": "tune", "objective": "seq2seq", "training": training}
    one = trained({**RUN, "training": training})
    right = trained(stages_of(first, **tune, corpus=corpus))
    wrong = trained(stages_of(first, **tune, corpus={**corpus, "shuffled_targets": True}))
    assert factors_of(one, right, runs, study_cache) == ("begin.stages.1",)
    shuffled = "begin.stages.1.corpus.shuffled_targets"
    assert factors_of(one, wrong, runs, study_cache) == ("begin.stages.1", shuffled)
    assert factors_of(right, wrong, runs, study_cache) == (shuffled,)


def test_a_chain_of_begins_is_followed_to_its_start(
    checkpoints: dict[str, Path], trained: Callable[[dict[str, Any]], Path], study_cache: Path
) -> None:
    runs = checkpoints["first"].parents[2]
    later = {name: value for name, value in RUN.items() if name != "architecture"}
    links = {
        name: trained({**later, "begin": str(checkpoints[name])})
        for name in ("first", "again", "other text")
    }
    found = factors_of(links["first"], links["other text"], runs, study_cache)
    assert found == ("begin.stages.0.corpus.sources.0.kind",)
    assert factors_of(links["first"], links["again"], runs, study_cache) == ("begin",)
    assert factors_of(checkpoints["first"], links["first"], runs, study_cache) == (
        "begin.stages.1",
    )


def test_a_copied_checkpoint_has_the_record_of_the_run_that_trained_it(
    checkpoints: dict[str, Path], study_cache: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(checkpoints["other text"], copied)
    one, runs = checkpoints["first"], checkpoints["first"].parents[2]
    (known,) = plan_of_weights(one, copied, runs, study_cache).judged
    assert known.description == "differs in begin.corpus.sources.0.kind"
    (unknown,) = plan_of_weights(one, copied, tmp_path, study_cache).judged
    note = "and, not known: no record says what trained copied"
    assert unknown.description.endswith(f"; {note}")
    assert unknown.mark.endswith(note)


@pytest.mark.parametrize("change", ["another's checkpoint", "another spec", "no checksums"])
def test_a_record_that_is_not_of_the_checkpoint_is_not_believed(
    checkpoints: dict[str, Path], study_cache: Path, tmp_path: Path, change: str
) -> None:
    """The run that did train it is found, if it is there; else nothing is known."""
    one, runs = checkpoints["first"], checkpoints["first"].parents[2]
    names = ("first", "other text") if change == "another's checkpoint" else ("other text",) * 2
    copied = tmp_path / "copied"
    shutil.copytree(checkpoints[names[0]].parents[1], copied)
    place = copied / "checkpoints" / checkpoints[names[1]].name
    shutil.rmtree(place)
    shutil.copytree(checkpoints[names[1]], place)
    if change == "another spec":
        spec = copied / "spec.json"
        spec.write_text(spec.read_text().replace('"copy"', '"translation"'))
    elif change == "no checksums":
        (copied / "checksums.jsonl").unlink()
    (known,) = plan_of_weights(one, place, runs, study_cache).judged
    assert known.description == "differs in begin.corpus.sources.0.kind"
    (unknown,) = plan_of_weights(one, place, tmp_path, study_cache).judged
    assert unknown.description.endswith(
        f"; and, not known: no record says what trained copied/{place.name}"
    )


def test_how_far_a_schedule_had_come_counts(
    checkpoints: dict[str, Path], trained: Callable[[dict[str, Any]], Path], study_cache: Path
) -> None:
    longer = trained({**RUN, "training": {**RUN["training"], "n_steps": 12, "keep_last": 9}})
    one, runs = checkpoints["first"], checkpoints["first"].parents[2]
    assert factors_of(one, longer, runs, study_cache) == ("begin.schedule.share",)
    ended = longer.with_name("step-000000011")
    assert factors_of(one, ended, runs, study_cache) == ("begin.n_steps",)


def test_a_text_that_was_replaced_counts_and_is_said_to_be_lost(
    trained: Callable[[dict[str, Any]], Path], study_cache: Path, tmp_path: Path
) -> None:
    file, copied = tmp_path / "text.txt", tmp_path / "elsewhere.txt"
    file.write_text("\n\n".join(f"{number * 7919 % 9973} words" * 9 for number in range(300)))
    shutil.copy(file, copied)
    runs, places = [], (file, copied, file)
    for number, place in enumerate(places):
        if number == 2:
            file.write_text(file.read_text().replace("words", "signs"))
        source = {"kind": "files", "paths": str(place), "max_document": 200}
        corpus = {"sources": [source], "test": 0.1}
        runs.append(trained({**RUN, "corpus": corpus}))
    one, same, replaced = runs
    folder = one.parents[2]
    assert factors_of(one, replaced, folder, study_cache) == ("begin.corpus.text",)
    plan = plan_of_weights(one, replaced, folder, study_cache)
    (line,) = [line for line in plan.control_lines if line.path == "items in training text"]
    lost = r"of stage 0 that trained own-\d+/step-000000005 is not found again"
    assert re.search(rf"in plain: the text {lost} \(another text is there now", line.note)
    assert "in other" not in line.note
    # the same weights; and now the cache has the first text, wherever it lay
    assert factors_of(one, same, folder, study_cache) == ()
    plan = plan_of_weights(one, replaced, folder, study_cache)
    assert not [line for line in plan.control_lines if line.path == "items in training text"]


def test_drawn_weights_read_bytes_as_a_checkpoint_does(
    checkpoints: dict[str, Path], study_cache: Path
) -> None:
    drawn = {"architecture": ARCHITECTURE}
    one, runs = checkpoints["first"], checkpoints["first"].parents[2]
    (judged,) = plan_of_weights(one, one, runs, study_cache, **drawn).judged
    assert judged.description == "differs in begin"
    bpe = {**drawn, "corpus": {"tokenizer": {"kind": "bpe", "n_vocab": 300}}}
    cure = (
        "differs in 2 factors: begin, begin.tokenizer; .* one tokenizer for both: corpus.tokenizer"
        r' = { kind = "file", path = "…/tokenizer.json" } in other, the file in the folder of'
    )
    with pytest.raises(ConfoundError, match=cure):
        plan_of_weights(one, one, runs, study_cache, **bpe)


def test_a_whole_run_is_answered_with_its_last_checkpoint(
    checkpoints: dict[str, Path], study_cache: Path
) -> None:
    table = sly_table('factor = "begin"')
    del table["base"]["architecture"]
    arms = {"plain": {"architecture": ARCHITECTURE}, "other": {"begin": "first"}}
    runs = checkpoints["first"].parents[2]
    name, design = find_design({**table, "arms": arms})
    execution = Execution(Workspace(runs, study_cache, "cpu"))
    said = f"begin from a checkpoint: begin = '{checkpoints['first']}' in other; or name what"
    with pytest.raises(SpecError, match=re.escape(said)):
        make_plan(design, name, None, execution, show_progress=False)
