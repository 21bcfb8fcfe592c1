"""Only the factor differs: whatever else a run says, changed in one arm, is a confound; what
the factor forces is none.

The test walks the schema: every leaf of a run is changed in one of two arms, and must be named. A
leaf for which no other value is found fails, so a new one cannot be added and forgotten.
"""

import copy
import itertools
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from field_probes import PROBES, models
from invented_languages import LANGUAGES as INVENTED
from pydantic import BaseModel
from tiny_model import PRESETS, tiny_architecture

from paribus.design.arms import Arm, arm_refusal, arms_of
from paribus.design.control import describe_confounds, field_lines, judge_pairs
from paribus.design.design_files import designs_folder, find_design, shipped_designs
from paribus.design.trials import pair_findings
from paribus.errors import SpecError
from paribus.spec.design import SCALES, Design
from paribus.spec.merging import set_at_path
from paribus.spec.run import Stage, load_run

LENGTH = 20
TRAINING = {"n_steps": 5, "n_sequences": 2, "length": LENGTH}
ORDINARY = {"preset": "gpt2", "n_layers": 1, "d_model": 12, "attention": {"n_heads": 2}}
MASKS = ("causal", "prefix", "full", "reverse")
OBJECTIVES = ("causal", "prefix", "last_token", "reverse")
WITNESS = "training.warmup"  # the declared factor, unless it is the leaf itself
PARTS = [{"objective": "causal"}, {"objective": "prefix"}]
REQUIRED: dict[str, dict[str, Any]] = {
    "files": {"paths": ["a.txt"], "max_unpacked": 10**9},
    "pairs": {"paths": ["a.tsv"], "max_unpacked": 10**9},
    "labelled": {"paths": ["a.tsv"], "max_unpacked": 10**9, "second": "more"},
    "tagged": {"paths": ["a.conll"], "max_unpacked": 10**9},
    "conversations": {"paths": ["a.jsonl"], "max_unpacked": 10**9},
    "preferences": {"paths": ["a.jsonl"], "max_unpacked": 10**9},
    "labels": {"n_labels": 3},
    "tags": {"n_labels": 3},
    "mixture": {"components": PARTS},
    "linear": {"min_length": 5},
    "recall": {"n_symbols": 20},
    "arithmetic": {"max_length": 4},
    "regression": {"min_length": 2, "n_varying": 3},
    "classification": {"min_length": 2, "n_varying": 3},
}
LANGUAGES = tuple(model.model_fields["kind"].default for model in INVENTED)
for language in LANGUAGES:
    REQUIRED.setdefault(language, {})["phrasings"] = ["{source}:"]

TURN_LEAVES = ("min_turns", "max_turns")  # of an invented language in conversations
# What goes with a source or an objective that asks for it: sources, objective, kind of stage.
TALK = {"kind": "copy", "form": "conversations"}
TOGETHER: dict[str, tuple[dict[str, Any], str, str]] = {
    "labelled": ({"kind": "labelled"}, "labels", "tune"),
    "python-labels": ({"kind": "python-labels"}, "labels", "tune"),
    "labels": ({"kind": "labelled"}, "labels", "tune"),
    "tagged": ({"kind": "tagged"}, "tags", "tune"),
    "python-tags": ({"kind": "python-tags"}, "tags", "tune"),
    "tags": ({"kind": "tagged"}, "tags", "tune"),
    "conversations": ({"kind": "conversations"}, "seq2seq", "instruct"),
    "preferences": ({"kind": "preferences"}, "preference", "prefer"),
    "preference": ({"kind": "preferences"}, "preference", "prefer"),
}
MEASURES = ("head", "pairs", "halves", "pseudo")


def leaf_paths(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Every leaf of a schema, union members by their kind in brackets; inside a list, of its
    first element.
    """
    for name, field in model.model_fields.items():
        inner = models(field.annotation)
        for kind in inner:
            tag = f"[{kind.model_fields['kind'].default}]" if "kind" in kind.model_fields else ""
            yield from leaf_paths(kind, f"{path}{name}{tag}.")
        if not inner:
            yield path + name


def is_of_every_stage(leaf: str) -> bool:
    """Has the only stage of a run this leaf? Only a later stage changes the architecture."""
    later = ("[conversations]", "[preferences]", "[preference]")
    refused = ("components.objective[labels]", "components.objective[tags]")  # in a mixture
    if any(tag in leaf for tag in (*later, *refused)) or leaf.endswith(TURN_LEAVES):
        return False
    return leaf != "kind" and "[file]" not in leaf and not leaf.startswith("architecture.")


STAGE_LEAVES = [leaf for leaf in leaf_paths(Stage) if is_of_every_stage(leaf)]


def written(leaf: str) -> dict[str, Any]:
    """The tables of a run that has this leaf."""
    table: dict[str, Any] = {"architecture": ORDINARY, "training": TRAINING, "objective": "prefix"}
    kinds = dict(re.findall(r"(\w+)\[([\w-]+)\]", leaf))
    if "sources" in kinds:
        table["corpus"] = {
            "sources": [{"kind": kinds["sources"], **REQUIRED.get(kinds["sources"], {})}]
        }
    if leaf.endswith(TURN_LEAVES):
        source = {"kind": kinds["sources"], "form": "conversations", "min_turns": 2, "max_turns": 3}
        required = {**REQUIRED.get(kinds["sources"], {})}
        required.pop("phrasings")
        table["corpus"] = {"sources": [{**required, **source}]}
        table["objective"] = "seq2seq"
    if leaf == "corpus.shuffled_targets":
        table["corpus"] = {"sources": ["copy"], "shuffled_targets": True}
    if "tokenizer" in kinds:
        table["corpus"] = {"tokenizer": kinds["tokenizer"]}
    for kind in (kinds.get("sources", ""), kinds.get("objective", "")):
        if kind in TOGETHER:
            source, objective, _ = TOGETHER[kind]
            table["corpus"] = {"sources": [{**source, **REQUIRED.get(source["kind"], {})}]}
            table["objective"] = {"kind": objective, **REQUIRED.get(objective, {})}
    for name in ("schedule", "optimizer"):
        if name in kinds:
            table["training"] = {**TRAINING, name: kinds[name]}
    if leaf.startswith("objective"):
        kind = leaf[len("objective[") : leaf.index("]")]
        table["objective"] = {"kind": kind, **REQUIRED.get(kind, {})}
        if leaf.endswith(".swapped"):
            table["objective"]["swapped"] = True  # it is left out where it is false
        if ".own_samples." in leaf:
            table["objective"]["own_samples"] = {}
            table["corpus"] = {"sources": [TALK]}
        if leaf.startswith("objective[mixture].components.objective"):
            table["objective"]["components"] = [{"objective": {"kind": kinds["objective"]}}]
        if leaf == "objective[mixture].components.mode":
            # which has a place for one
            table["objective"]["components"] = [{"objective": "continuation"}]
    return copy.deepcopy(table)


def names(leaf: str) -> list[str]:
    return re.sub(r"\[[\w-]+\]", "", leaf).split(".")


def at(table: Any, path: list[str]) -> Any:
    for name in path:
        table = table[0] if isinstance(table, list) else table
        table = table[name]
    return table


def put(table: Any, path: list[str], value: Any) -> None:
    *outer, last = path
    for name in outer:
        table = table[0] if isinstance(table, list) else table
        table = table[name]
    table = table[0] if isinstance(table, list) else table
    if last == "kind":
        form = table["kind"] if table["kind"] in ("conversations", "preferences") else None
        table.clear()
        table.update(REQUIRED.get(value, {}))
        if form is not None and value in LANGUAGES:
            table["form"] = form
    table[last] = value


KINDS = tuple(
    dict.fromkeys(
        kind.model_fields["kind"].default
        for field in (
            Stage.model_fields["objective"],
            *(
                m.model_fields[n]
                for m in models(Stage.model_fields["corpus"].annotation)
                for n in ("sources", "tokenizer")
            ),
            *(
                m.model_fields[n]
                for m in models(Stage.model_fields["training"].annotation)
                for n in ("schedule", "optimizer")
            ),
        )
        for kind in models(field.annotation)
    )
)
# no yardstick can be asked of them and of others
UNMEASURED = (
    "objective[reverse].kind",
    "objective[masked].kind",
    "objective[labels].kind",
    "objective[tags].kind",
)
WORDS = ("pairs", "last", "text", "slice", "all", "strict", "replace", "+", "+-", "R", "X", "else")


def others(value: Any, last: str) -> Iterator[Any]:
    """Other values a leaf might have."""
    if last == "kind":
        yield from (kind for kind in KINDS if kind != value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 1, value * 2, value + 2, value / 2, value + 0.1, value - 1, value + 6)
    elif isinstance(value, list):
        yield from ([*value, "b.txt"], [*value, "after {source}:"])
    else:
        yield from (word for word in WORDS if word != value)


def design(base: dict[str, Any], arm: dict[str, Any], factor: str, measure: str) -> Design:
    table = {"first": {}, "second": arm}
    return Design(
        question="?",
        base=base,
        baseline="first",
        factor=(factor,),
        arms=table,
        tune=None,
        primary={"measure": {"kind": measure}},
    )


def arms(base: dict[str, Any], second: dict[str, Any], factor: str) -> tuple[Arm, ...]:
    """Two arms that also differ in the factor; measured by whichever yardstick can be asked of
    both.
    """
    moved = {} if factor == "architecture" else copy.deepcopy(second)
    if factor != "architecture":
        set_at_path(moved, factor, 3)
    for measure in MEASURES:
        try:
            return arms_of(design(base, moved or second, factor, measure))
        except SpecError as fault:
            problem = fault
    raise problem


def caught(first: Arm, second: Arm, factor: str) -> list[str]:
    """The confounds of two arms, which are the same whichever of them is the baseline."""
    designs = [design({}, {}, factor, measure) for measure in MEASURES]
    asked = next(
        one for one in designs if not any(arm_refusal(one, arm.table) for arm in (first, second))
    )
    refusal = partial(arm_refusal, asked)
    turned = pair_findings(second, first, (factor,), refusal)
    found = pair_findings(first, second, (factor,), refusal)
    assert {path: one.mark for path, one in found.items()} == {
        path: one.mark for path, one in turned.items()
    }
    return [path for path, one in found.items() if one.mark == "✗"]


def changed(leaf: str) -> tuple[Arm, ...] | None:
    """Arms that differ in a leaf and in the factor, under some mask and value with which both
    can be trained.
    """
    path, factor = names(leaf), WITNESS if leaf != WITNESS else "training.keep_last"
    for mask in MASKS:
        base = written(leaf)
        base["architecture"] = {**ORDINARY, "mask": mask}
        try:
            (stage,) = load_run(copy.deepcopy(base)).stages
        except SpecError:
            return None
        base |= stage.model_dump(mode="json", exclude={"kind"})
        base["training"]["optimizer"]["kind"] = stage.training.optimizer.kind  # AdamW's is left out
        for value in others(at(base, path), path[-1]):
            arm = copy.deepcopy(base)
            put(arm, path, value)
            own = {name: arm[name] for name in (path[0],)}
            try:
                made = arms(base, own, factor)
            except SpecError:
                continue
            if made[0].leaves != made[1].leaves:
                return made
    return None


@pytest.mark.parametrize("leaf", [leaf for leaf in STAGE_LEAVES if not leaf.endswith(UNMEASURED)])
def test_a_leaf_of_a_stage_changed_in_one_arm_is_caught(leaf: str) -> None:
    made = changed(leaf)
    assert made is not None, f"no other value was found for {leaf}"
    factor = WITNESS if leaf != WITNESS else "training.keep_last"
    path = ".".join(names(leaf))
    said = caught(made[0], made[1], factor)
    assert any(path == one or path.startswith(f"{one}.") for one in said), said
    assert not any(one.startswith(factor) for one in said)


CHAIN_WITNESS = f"stages.1.{WITNESS}"
# of a stage that only comes later, but for its objective, which is that of its kind
LATER_LEAVES = [
    leaf
    for leaf in leaf_paths(Stage)
    if (
        re.search(r"\[(conversations|preferences|preference)\]", leaf) or leaf.endswith(TURN_LEAVES)
    )
    and leaf != "objective[preference].kind"
]
# a later stage has the tokenizer of the first, and an objective that can be measured
CHAIN_LEAVES = [
    leaf
    for leaf in (*STAGE_LEAVES, *LATER_LEAVES)
    if "tokenizer" not in leaf and leaf != WITNESS and not leaf.endswith(UNMEASURED)
]


def stage_kind(leaf: str) -> str:
    """The kind of a later stage that has a leaf."""
    if leaf.endswith(TURN_LEAVES):
        return "instruct"
    for kind in re.findall(r"\[([\w-]+)\]", leaf):
        if kind in TOGETHER:
            return TOGETHER[kind][2]
    return "adapt"


def changed_later(leaf: str) -> tuple[Arm, ...] | None:
    """Arms of two stages that differ in a leaf of the second and in the factor."""
    path = names(leaf)
    for mask in MASKS:
        base = written(leaf)
        base["architecture"] = {**ORDINARY, "positions": "rotary", "mask": mask}
        later = {key: base.pop(key) for key in ("corpus", "objective", "training") if key in base}
        base["training"] = TRAINING
        base["objective"] = {"kind": "prefix" if mask != "reverse" else "reverse"}
        base["stages"] = {"0": {}, "1": {"kind": stage_kind(leaf), **later}}
        try:
            last = load_run(copy.deepcopy(base)).last
        except SpecError:
            continue
        stage = last.model_dump(mode="json")
        stage["training"]["optimizer"]["kind"] = last.training.optimizer.kind
        base["stages"]["1"] = stage
        for value in others(at(stage, path), path[-1]):
            own = copy.deepcopy(stage)
            put(own, path, value)
            try:
                made = arms(base, {"stages": {"1": {path[0]: own[path[0]]}}}, CHAIN_WITNESS)
            except SpecError:
                continue
            if made[0].leaves != made[1].leaves:
                return made
    return None


@pytest.mark.parametrize("leaf", CHAIN_LEAVES)
def test_a_leaf_of_a_later_stage_changed_in_one_arm_is_caught(leaf: str) -> None:
    made = changed_later(leaf)
    assert made is not None, f"no other value was found for {leaf}"
    path = ".".join(("stages", "1", *names(leaf)))
    said = caught(made[0], made[1], CHAIN_WITNESS)
    assert any(path == one or path.startswith(f"{one}.") for one in said), said
    assert not any(one.startswith(CHAIN_WITNESS) for one in said)


CHAIN = {
    "architecture": {**ORDINARY, "positions": "rotary"},
    "training": TRAINING,
    "stages": {"0": {}, "1": {"kind": "adapt"}},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("stages.0.training.n_steps", 7),
        ("stages.0.objective", "prefix"),
        ("stages.0.corpus.valid", 0.1),
        ("stages.1.kind", "tune"),
        ("stages.1.architecture.mask", "prefix"),
        ("stages.1.architecture.dropout", 0.1),
        ("stages.1.architecture.max_length", 40),
        ("stages.2", {"kind": "adapt"}),
    ],
)
def test_what_differs_in_any_stage_of_a_chain_is_caught(path: str, value: Any) -> None:
    second: dict[str, Any] = {}
    set_at_path(second, path, value)
    said = caught(*arms(CHAIN, second, CHAIN_WITNESS), CHAIN_WITNESS)
    assert any(one == path or one.startswith(f"{path}.") for one in said), said


@pytest.mark.parametrize("kind", ["reverse", "masked"])
def test_an_objective_that_answers_no_common_yardstick_is_refused(kind: str) -> None:
    base = {
        "architecture": {**ORDINARY, "mask": "full" if kind == "masked" else "reverse"},
        "training": TRAINING,
    }
    second = {"architecture": {"mask": "causal"}, "objective": "causal"}
    with pytest.raises(
        SpecError, match=r"the yardstick 'pseudo' cannot be used: objective.kind is"
    ):
        arms({**base, "objective": kind}, second, WITNESS)


def test_a_tokenizer_of_another_file_is_caught(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text('{"model": {"vocab": {"a": 0, "b": 1}}}')
    base = {
        **written("training.n_steps"),
        "corpus": {"tokenizer": {"kind": "file", "path": str(tmp_path / "a.json")}},
    }
    second = {"corpus": {"tokenizer": {"path": str(tmp_path / "b.json")}}}
    assert caught(*arms(base, second, WITNESS), WITNESS) == ["corpus.tokenizer.path"]


@pytest.mark.parametrize("leaf", PROBES)
def test_a_leaf_of_an_architecture_changed_in_one_arm_is_caught(leaf: str) -> None:
    preset, both, one = PROBES[leaf]
    base = {
        "architecture": tiny_architecture(preset, both).model_dump(mode="json"),
        "training": {**TRAINING, "length": 12},
    }
    table: dict[str, Any] = {"architecture": copy.deepcopy(base["architecture"])}
    for path, value in one.items():
        set_at_path(table, f"architecture.{path}", value)
    for objective in OBJECTIVES:
        try:
            made = arms({**base, "objective": objective}, table, WITNESS)
        except SpecError:
            continue
        path = "architecture." + ".".join(names(leaf))
        said = caught(*made, WITNESS)
        assert any(path == one or path.startswith(f"{one}.") for one in said), said
        return
    pytest.fail("no objective can be asked of both arms")


def own_objective(preset: str) -> str:
    table = {
        "architecture": tiny_architecture(preset).model_dump(mode="json"),
        "training": {**TRAINING, "length": 12},
    }
    for objective in OBJECTIVES:
        try:
            arms_of(design({**table, "objective": objective}, {}, "architecture", "halves"))
        except SpecError:
            continue
        return objective
    raise AssertionError(preset)


def test_between_any_two_presets_only_what_could_be_equal_is_a_confound() -> None:
    """Each asked as it can be: another objective is a confound exactly where the same one would
    have been possible.
    """
    asked = {preset: own_objective(preset) for preset in PRESETS}
    tables = {preset: tiny_architecture(preset).model_dump(mode="json") for preset in PRESETS}
    training, made = {**TRAINING, "length": 12}, {}
    for preset in PRESETS:
        base = {"architecture": tables[preset], "objective": asked[preset], "training": training}
        made[preset] = replace(arms_of(design(base, {}, "architecture", "halves"))[0], name=preset)
    could = {
        (p, o): permitted(tables[p], o, training) for p in PRESETS for o in set(asked.values())
    }
    n_forced = 0
    for one, other in itertools.permutations(PRESETS, 2):
        said = caught(made[one], made[other], "architecture")
        free = asked[one] != asked[other] and (could[other, asked[one]] or could[one, asked[other]])
        assert ("objective.kind" in said) == free, (one, other)
        assert all(path.startswith("objective.") for path in said), (one, other)
        n_forced += asked[one] != asked[other] and not free
    assert n_forced > 20


def permitted(architecture: dict[str, Any], objective: str, training: dict[str, Any]) -> bool:
    base = {"architecture": architecture, "objective": objective, "training": training}
    try:
        arms_of(design(base, {}, "architecture", "halves"))
    except SpecError:
        return False
    return True


@pytest.mark.parametrize("preset", PRESETS)
def test_one_field_taken_from_another_preset_brings_no_confound(preset: str) -> None:
    following = PRESETS[(PRESETS.index(preset) + 1) % len(PRESETS)]
    first, second = (
        tiny_architecture(name).model_dump(mode="json") for name in (preset, following)
    )
    base = {
        "architecture": first,
        "objective": own_objective(preset),
        "training": {**TRAINING, "length": 12},
    }
    for field in (name for name in first if first[name] != second[name]):
        arm = {"architecture": {field: second[field]}}
        try:
            made = arms_of(design(base, arm, f"architecture.{field}", "halves"))
        except SpecError:
            continue  # the field cannot be had alone
        assert caught(*made, f"architecture.{field}") == [], field


def shipped_scales() -> list[tuple[str, str]]:
    """Every shipped design at every scale that it has; all but the largest are in all of them."""
    scales = []
    for name in shipped_designs():
        table = tomllib.loads((designs_folder() / f"{name}.toml").read_text("utf-8"))
        assert set(SCALES) - {"paper"} <= set(table["scales"])
        scales += [(name, scale) for scale in table["scales"]]
    return scales


@pytest.mark.parametrize(("name", "scale"), shipped_scales())
def test_a_shipped_design_has_no_confound_at_any_scale(name: str, scale: str) -> None:
    # where leaks are looked for over every pair of positions
    long = scale == "paper" and name != "objectives"
    _, asked = find_design(name, scale, {"base.training.length": 256} if long else None)
    made = arms_of(asked)
    lines = field_lines(asked, made, judge_pairs(asked, made))
    assert describe_confounds(lines) == ()
    assert any(line.mark == "Δ" for line in lines)
    assert not asked.allow


def test_the_walk_has_every_kind() -> None:
    tags = {tag for leaf in leaf_paths(Stage) for tag in re.findall(r"\[([\w-]+)\]", leaf)}
    assert {"python-docs", "arithmetic", "ul2", "mixture", "bpe", "inverse_sqrt"} <= tags
    assert len(STAGE_LEAVES) > 150
