"""What a plan answers depends on what the arms are: not on their order, the baseline, or where
a value was written.

Random designs are answered again and again, each time with the arms in another order, under another
baseline, and with their values moved between preset, base, arm and `--set`. A confound that was
planted is named every time.
"""

import copy
import random
from pathlib import Path
from typing import Any

import pytest
from trained_study import design_table

from paribus.design import make_plan
from paribus.design.arms import arms_of
from paribus.design.control import describe_confounds, field_lines, judge_pairs
from paribus.errors import ConfoundError, SpecError
from paribus.spec.design_reading import load_design
from paribus.spec.merging import set_at_path
from paribus.workspace import Execution, Workspace

# Fields and values that an arm may have beside any other of them, but for heads, layers and widths
# that do not fit.
FIELDS: dict[str, list[Any]] = {
    "architecture.mask": [
        "causal",
        "prefix",
        "by_head(causal, prefix)",
        "by_layer(causal, prefix, prefix, prefix)",
    ],
    "architecture.positions": [
        "none",
        "learned",
        "rotary",
        "alibi",
        {"kind": "rotary", "theta": 500.0},
    ],
    "architecture.norm": [
        "layer",
        "rms",
        {"kind": "rms", "eps": 1e-5},
        {"kind": "layer", "bias": False},
    ],
    "architecture.attention.n_heads": [2, 3, 4],
    "architecture.attention.d_head": [5, 6, 8],
    "architecture.d_model": [24, 32, 36],
    "architecture.n_layers": [1, 2, 4],
    "architecture.feed_forward.d_ff": [16, 24],
    "architecture.encoder": [{"n_layers": 1}, {"n_layers": 2, "mask": "causal"}],
    "architecture.dropout": [0.0, 0.1],
    "architecture.n_vocab": [400, 500],
    "objective": ["prefix", "spans", {"kind": "prefix", "least": 0.5}],
    "training.warmup": [0, 2],
    "training.schedule": ["cosine", "trapezoid", {"kind": "cosine", "floor": 0.5}],
    "training.length": [20, 24],
    "training.optimizer.beta2": [0.95, 0.99],
    "corpus.tokenizer": ["bytes", {"kind": "bpe", "n_vocab": 300}],
}
# Values that nothing forces: wherever one is planted, it could have been equal.
PLANTED: dict[str, tuple[Any, Any]] = {
    "architecture.dropout": (0.0, 0.1),
    "architecture.norm.eps": (1e-5, 1e-3),
    "architecture.embedding.norm": (False, True),
    "architecture.head.tied": (True, False),
    "architecture.feed_forward.d_ff": (16, 24),
    "architecture.attention.qk_norm": (False, True),
    "architecture.attention.score_scale": (None, 0.5),
    "training.warmup": (0, 2),
    "training.z_loss": (0.0, 0.1),
    "training.optimizer.beta1": (0.9, 0.8),
    "training.keep_last": (2, 3),
    "training.n_sequences": (2, 4),
}
BASE = {
    "architecture": {"preset": "gpt2", "n_layers": 2, "d_model": 24, "attention": {"n_heads": 2}},
    "objective": "prefix",
    "training": {"n_steps": 5, "n_sequences": 2, "length": 20},
}
N_DESIGNS = 60


def random_arms(draw: random.Random) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The factor, and three or four arms: each with its own values of the factor and of some
    other fields.
    """
    factor, *others = draw.sample(sorted(FIELDS), 4)
    names = ["a", "b", "c", "d"][: draw.choice([3, 4])]
    arms = {name: {factor: draw.choice(FIELDS[factor])} for name in names}
    for path in others[: draw.choice([0, 1, 2, 3])]:
        for own in arms.values():
            own[path] = draw.choice(FIELDS[path])
    return [factor], arms


def random_pairs(draw: random.Random, names: list[str]) -> list[list[str]]:
    every = [[one, other] for place, one in enumerate(names) for other in names[:place]]
    return draw.sample(every, draw.randint(1, len(every)))


def table_of(values: dict[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for path in sorted(values, key=lambda path: (path.count("."), path)):
        set_at_path(table, path, copy.deepcopy(values[path]))
    return table


def answer(
    draw: random.Random, factor: list[str], arms: dict[str, dict[str, Any]], pairs: list[list[str]]
) -> Any:
    """What is answered to a design written in some way: the mark of every field, or every fault."""
    names = draw.sample(list(arms), len(arms))
    base, changes = copy.deepcopy(BASE), {}
    written = {name: dict(values) for name, values in arms.items()}
    for path in {path for values in arms.values() for path in values}:
        _write(draw, path, base, changes, written)
    table = {
        "question": "?",
        "base": base,
        "baseline": draw.choice(names),
        "factor": factor,
        "match": "nothing",
        "tune": False,
        "primary": {"measure": "halves"},
        "arms": {name: table_of(written[name]) for name in names},
        "comparisons": [
            pair if draw.random() < 0.5 else pair[::-1] for pair in draw.sample(pairs, len(pairs))
        ],
    }
    try:
        design = load_design(table, changes=changes)
        made = arms_of(design)
    except SpecError as fault:
        return {problem.partition(": ")[2] or problem for problem in fault.problems}
    lines = field_lines(design, made, judge_pairs(design, made))
    return {line.path: line.mark for line in lines}


def _write(
    draw: random.Random,
    path: str,
    base: dict[str, Any],
    changes: dict[str, Any],
    written: dict[str, dict[str, Any]],
) -> None:
    """Put the values of a field where they mean the same: in the base, in each arm, or in
    changes from outside.
    """
    values = [own[path] for own in written.values()]
    if all(value == values[0] for value in values) and draw.random() < 0.5:
        if draw.random() < 0.5:
            set_at_path(base, path, copy.deepcopy(values[0]))
        else:
            changes[f"base.{path}"] = copy.deepcopy(values[0])
        for own in written.values():
            del own[path]
        return
    for name, own in written.items():
        if draw.random() < 0.3:
            changes[f"arms.{name}.{path}"] = copy.deepcopy(own.pop(path))


@pytest.mark.parametrize("number", range(N_DESIGNS))
def test_the_answer_is_the_same_in_any_order_and_writing(number: int) -> None:
    draw = random.Random(number)
    factor, arms = random_arms(draw)
    pairs = random_pairs(draw, list(arms))
    first = answer(draw, factor, arms, pairs)
    for _ in range(4):
        assert answer(draw, factor, arms, pairs) == first


@pytest.mark.parametrize("path", PLANTED)
def test_a_planted_confound_is_named_in_every_order(path: str) -> None:
    """In an arm that is compared, whether with the baseline or not, and whatever the factor
    forces beside it.
    """
    n_planted = 0
    for number in range(12):
        draw = random.Random(f"{path} {number}")
        factor, arms = random_arms(draw)
        if any(
            path.startswith(own) or own.startswith(path)
            for values in arms.values()
            for own in values
        ):
            continue
        pairs = random_pairs(draw, list(arms))
        culprit = draw.choice(draw.choice(pairs))
        for name, own in arms.items():
            own[path] = PLANTED[path][name == culprit]
        found = answer(draw, factor, arms, pairs)
        if isinstance(found, dict):
            n_planted += 1
            assert found[path] == "✗", (factor, arms, pairs)
    assert n_planted > 2


def test_presets_and_their_fields_written_out_are_the_same() -> None:
    """A value in a preset counts as one that was written."""
    arms = {
        "one": {"architecture": {"preset": "gpt2"}},
        "other": {"architecture": {"preset": "llama"}},
    }
    sizes = {"d_model": 24, "n_layers": 2, "attention": {"n_heads": 2}}
    table = {
        "question": "?",
        "base": {"architecture": sizes, "training": BASE["training"]},
        "baseline": "one",
        "factor": "architecture.mask",
        "tune": False,
        "primary": {"measure": "halves"},
        "arms": arms,
    }
    design = load_design(table)
    made = arms_of(design)
    named = field_lines(design, made, judge_pairs(design, made))
    for name in arms:
        own = next(arm for arm in made if arm.name == name)
        table["arms"] = {
            **table["arms"],
            name: {"architecture": own.run.architecture.model_dump(mode="json")},
        }
    table["base"] = {"training": BASE["training"]}
    design = load_design(table)
    made = arms_of(design)
    written = field_lines(design, made, judge_pairs(design, made))
    assert {line.path: line.mark for line in named} == {line.path: line.mark for line in written}
    assert any(
        said.startswith("architecture.norm.kind is 'layer' in one, 'rms' in other")
        for said in describe_confounds(named)
    )


@pytest.mark.parametrize("baseline", ["full", "reverse", "causal"])
def test_a_whole_plan_answers_the_same_under_any_baseline(baseline: str, study_cache: Path) -> None:
    fair = {
        "comparisons": [["causal", "full"], ["reverse", "full"]],
        "match": "nothing",
        "baseline": baseline,
    }
    plan = make_plan(
        load_design(design_table(fair)),
        "any",
        None,
        Execution(Workspace(cache=study_cache, device="cpu")),
        show_progress=False,
    )
    marks = {
        line.path: line.mark
        for line in plan.control_lines
        if line.path != "starting weights in common"
    }
    assert [path for path, mark in marks.items() if mark not in "✓→"] == ["architecture.mask"]
    unfair = load_design(design_table(fair | {"arms.causal.architecture.norm": {"eps": 1e-4}}))
    with pytest.raises(
        ConfoundError, match=r"^architecture.norm.eps is .*, but it is not the factor: "
    ) as refused:
        make_plan(
            unfair,
            "any",
            None,
            Execution(Workspace(cache=study_cache, device="cpu")),
            show_progress=False,
        )
    assert len(refused.value.problems) == 1
