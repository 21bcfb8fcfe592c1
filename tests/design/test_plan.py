"""A plan: refused before any training where it is no fair comparison, and the same however it
was asked for.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from pair_design import pair_design
from trained_study import LENGTH, N_SEQUENCES, N_STEPS, RATE, design_table, make_small_plan

from paribus.design import described, estimate_cost, find_design, make_plan
from paribus.design.plan import tuning_description
from paribus.design.quantities import QUANTITIES, quantity_lines
from paribus.errors import ConfoundError, SpecError
from paribus.record import Study
from paribus.spec import resolve
from paribus.spec.design import Design
from paribus.spec.design_reading import load_design
from paribus.workspace import Execution, Workspace

HALVES = {"kind": "halves", "n_items": 5, "max_bytes": 16}
WIDE = {"architecture": {"mask": "causal", "feed_forward": {"d_ff": 96}}}
WIDER = {
    "factor": ["architecture.mask", "architecture.feed_forward"],
    "arms.causal": WIDE,
    "compound": {"causal": "both at once"},
}


def lines(cache: Path, changes: dict[str, Any] | None = None, n_jobs: int = 1) -> dict[str, Any]:
    return {line.path: line for line in make_small_plan(cache, changes, n_jobs).control_lines}


def test_the_table_has_what_follows_and_the_machine(study_cache: Path) -> None:
    found = lines(study_cache)
    assert [path for path, line in found.items() if line.mark not in "✓→"] == ["architecture.mask"]
    for path in (
        "parameters",
        "training_flops",
        "tokens_read in all",
        "epochs",
        "starting weights in common",
        "text",
        "kernel",
        "precision",
        "threads",
        "device",
        "torch",
        "code",
    ):
        assert path in found
    assert set(found["starting weights in common"].values.values()) == {1.0}


def test_pairs_are_planned_with_the_kernels_that_take_padding(tmp_path: Path) -> None:
    table = pair_design(tmp_path, {"factor": "architecture.mask"})
    table["arms"] = {"decoder": {}, "hidden": {"architecture": {"mask": "causal & same_side"}}}
    name, design = find_design(table)
    plan = make_plan(
        design,
        name,
        None,
        Execution(Workspace(cache=tmp_path / "cache", device="cpu")),
        show_progress=False,
    )
    line = next(line for line in plan.control_lines if line.path == "kernel")
    assert (line.mark, set(line.values.values())) == ("✓", {"masked"})


def test_sizes_kernels_and_shares_that_differ_follow_and_are_no_confounds(
    study_cache: Path,
) -> None:
    """A bias of positions takes another kernel and some parameters, and a causal mask shows
    half of the pairs.
    """
    arms = {
        "arms.reverse": None,
        "arms.causal": None,
        "arms.full": None,
        "baseline": "plain",
        "match": "nothing",
    }
    arms |= {
        "arms.plain": {"architecture": {"mask": "causal", "positions": "none"}},
        "arms.biased": {"architecture": {"mask": "full", "positions": "relative_bias"}},
    }
    arms["compound"] = {"biased": "both at once"}
    found = lines(study_cache, arms | {"factor": ["architecture.mask", "architecture.positions"]})
    for path in ("parameters", "visible_share", "kernel"):
        assert len(set(found[path].values.values())) == 2, path
        assert found[path].mark == "→", path


def test_nothing_is_planned_beside_a_confound(study_cache: Path) -> None:
    with pytest.raises(
        ConfoundError, match=r"training.z_loss is 0.0 in full, 0.0 in reverse, 0.1 in causal, but"
    ):
        make_small_plan(study_cache, {"arms.causal.training": {"z_loss": 0.1}})


@pytest.mark.parametrize("tune", [True, False])
def test_a_rate_written_in_one_arm_is_a_confound_though_rates_are_swept(
    study_cache: Path, tune: bool
) -> None:
    with pytest.raises(ConfoundError, match=rf"training.optimizer.rate is {RATE} in full"):
        make_small_plan(
            study_cache, {"arms.causal.training": {"optimizer": {"rate": 0.1}}, "tune": tune}
        )


def test_steps_written_in_one_arm_are_a_confound_though_a_budget_moves_them(
    study_cache: Path,
) -> None:
    with pytest.raises(
        ConfoundError,
        match=rf"training.n_steps is {N_STEPS} in full, {N_STEPS} in reverse, 9 in causal",
    ):
        make_small_plan(
            study_cache, {"arms.causal.training": {"n_steps": 9}, "budget": "tokens_read"}
        )


def test_rates_that_are_swept_are_tuned_alike(study_cache: Path) -> None:
    found = lines(study_cache, {"tune": {"share": 0.5}})
    assert found["training.optimizer.rate"].mark == "⟳"
    assert (
        found["training.optimizer.rate"].note
        == "5 rates a factor 2 apart, then two half an octave beside the vertex, 2 seeds, vertex of"
        " a parabola within an octave, on valid text, over 50% of the steps"
    )
    assert tuning_description(load_design(design_table())) is None


def test_a_size_must_be_chosen_where_it_differs(study_cache: Path) -> None:
    said = (
        r"match is missing, and the arms' parameters differ by .*; which of them is made equal is"
        r" the question"
    )
    with pytest.raises(
        SpecError,
        match=rf"{said} you ask: say so, such as match = \{{ by = 'non_embedding_parameters'",
    ):
        make_small_plan(study_cache, WIDER)
    found = lines(study_cache, WIDER | {"match": "nothing", "budget": "tokens_read"})
    assert found["parameters"].mark == "→"


def test_the_match_of_one_arm_does_not_choose_for_another(study_cache: Path) -> None:
    other = {"arms.reverse.match": {"by": "parameters", "moves": ["d_ff"]}}
    with pytest.raises(SpecError, match="match is missing, and the arms' parameters differ"):
        make_small_plan(study_cache, WIDER | other | {"budget": "tokens_read"})


def test_what_was_matched_is_moved_and_says_so(study_cache: Path) -> None:
    asked = {
        "match": {"by": "parameters", "moves": ["d_ff"]},
        "budget": "tokens_read",
        "factor": ["architecture.mask", "architecture.attention"],
        "compound": {"causal": "both at once"},
    }
    arm = {"arms.causal.architecture": {"mask": "causal", "attention": {"d_head": 16}}}
    found = lines(study_cache, asked | arm)
    assert found["architecture.feed_forward.d_ff"].mark == "≈"
    assert found["architecture.feed_forward.d_ff"].note.startswith(
        "moved so that parameters agree to 0."
    )
    assert (found["parameters"].mark, found["parameters"].note[:15]) == ("≈", "sizes agree to ")


def test_a_match_by_width_under_mup_keeps_heads_and_depth_and_says_what_rates_become(
    study_cache: Path,
) -> None:
    changes = {
        "base.architecture.init": "mup",
        "arms.reverse": None,
        "match": {"by": "parameters", "moves": ["width"], "times": 2.0, "tolerance": 0.2},
        "budget": "tokens_read",
        "factor": ["architecture.mask", "match"],
        "compound": {"causal": "both at once"},
    }
    plan = make_small_plan(study_cache, changes)
    shapes = []
    for arm in plan.arms:
        block, *others = resolve(arm.run.last_architecture).stack.layers
        assert not others
        shapes.append((arm.run.last_architecture.d_model, block.attention.d_head))
    assert shapes == [(16, 8), (24, 8)]
    found = {line.path: line for line in plan.control_lines}
    assert found["architecture.d_model"].mark == "→"
    rate = found["rate of inward weights"]
    assert (rate.mark, rate.note) == ("→", "follows from architecture.init and the widths")
    assert rate.values == {"full": "× 4", "causal": "× 2.66667"}  # 64/16, 64/24


def test_every_arm_is_told_with_what_it_was_matched_by(study_cache: Path) -> None:
    """Twice the baseline's parameters by depth, its inference FLOPs by d_ff, and its parameters
    by nothing at all.
    """
    deep = {
        "architecture": {"mask": "causal"},
        "match": {"by": "parameters", "moves": ["depth", "d_ff"], "times": 2.0},
    }
    wide = {
        "architecture": {"mask": "reverse", "attention": {"d_head": 16}},
        "match": {"by": "inference_flops", "moves": ["d_ff"], "n_input": 5, "n_target": 7},
    }
    found = lines(
        study_cache,
        {
            "factor": [
                "architecture.mask",
                "architecture.attention",
                "architecture.n_layers",
                "match",
            ],
            "compound": dict.fromkeys(("causal", "reverse"), "all at once"),
            "arms.causal": deep,
            "arms.reverse": wide,
            "match": "nothing",
            "budget": "tokens_read",
        },
    )
    depth = found["architecture.n_layers"]
    assert (depth.mark, depth.note[:54]) == (
        "→",
        "moved so that parameters are 2 × the baseline's, to 0.",
    )
    assert depth.values["full"] == depth.values["reverse"] == 1 < depth.values["causal"]
    assert found["architecture.attention.d_head"].mark == "Δ"
    assert found["match"].mark == "Δ"
    assert found["match"].values["causal"] == "2 × parameters to 0.005"
    assert found["parameters"].mark == "→"
    assert "causal: sizes are 2 × the baseline's, to 0." in found["parameters"].note
    assert "reverse: not matched by it" in found["parameters"].note
    asked = found["inference_flops of 5 + 7 tokens"]
    assert asked.mark == "→"
    assert "reverse: sizes agree to 0." in asked.note
    assert "causal: not matched by it" in asked.note
    assert asked.values["reverse"] == pytest.approx(asked.values["full"], rel=0.005)
    widths = found["architecture.feed_forward.d_ff"].note
    assert "reverse: moved so that inference flops agree to 0." in widths


def test_a_field_that_an_arm_wrote_and_the_match_moved_is_the_factor(study_cache: Path) -> None:
    deep = {"architecture": {"mask": "causal", "n_layers": 2, "feed_forward": {"d_ff": 32}}}
    changes = {
        "factor": ["architecture.mask", "architecture.n_layers", "architecture.feed_forward"],
        "arms.causal": deep,
        "compound": {"causal": "all at once"},
        "match": {"by": "parameters", "moves": ["d_ff"]},
        "budget": "tokens_read",
    }
    width = lines(study_cache, changes)["architecture.feed_forward.d_ff"]
    assert (width.mark, width.note[:34]) == ("Δ", "moved so that parameters agree to ")


def test_batches_are_told_as_a_function_of_seed_and_step(study_cache: Path) -> None:
    found = lines(study_cache)["batches"]
    assert (found.mark, found.values["full"]) == (
        "✓",
        f"{N_SEQUENCES} × {LENGTH} of the text, by seed and step",
    )


def test_the_names_of_quantities_are_those_of_the_table(study_cache: Path) -> None:
    plan = make_small_plan(study_cache)
    assert {line.path for line in quantity_lines(plan.arms, None)} == set(QUANTITIES)


SLIPS = [
    (
        {"factor": ["architecture.mask", "training.warmpu"]},
        (
            "factor 'training.warmpu' is a field of no arm's run; did you mean 'training.warmup'?"
            " name a field, or a table"
        ),
    ),
    (
        {"factor": ["architecture.mask", "architecture.encoder.n_layers"]},
        "factor 'architecture.encoder.n_layers' is a field of no arm's run; ",
    ),
    (
        {"allow": {"trainin.wrmup": "so be it"}},
        (
            "allow has 'trainin.wrmup', a field of no arm's run and no quantity of the control"
            " table; did you mean 'training"
        ),
    ),
    (
        {"allow": {"parameter": "so be it"}},
        "did you mean 'parameters'? name what differs as the table does",
    ),
]


@pytest.mark.parametrize(("changes", "said"), SLIPS)
def test_a_path_that_is_no_field_is_met_with_the_nearest(
    changes: dict[str, Any], said: str, study_cache: Path
) -> None:
    with pytest.raises(SpecError) as caught:
        make_small_plan(study_cache, changes)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"allow": {f"training.warmup{n}": "so be it" for n in range(2_000)}},
            "and 1,990 more allowances of nothing that could differ; correct these first",
        ),
        (
            {"factor": ["architecture.mask", *(f"training.warmup{n}" for n in range(2_000))]},
            "and 1,990 more factors that are no field; correct these first",
        ),
    ],
)
def test_of_many_paths_that_are_no_field_the_first_ten_are_told(
    changes: dict[str, Any], said: str, study_cache: Path
) -> None:
    with pytest.raises(SpecError) as caught:
        make_small_plan(study_cache, changes)
    *first, last = caught.value.problems
    assert [problem.count("did you mean 'training.warmup'?") for problem in first] == [1] * 10
    assert last == said


def test_the_path_of_a_factorials_factor_must_be_a_field(study_cache: Path) -> None:
    factors = {
        "mask": {"path": "architecture.mask", "levels": ["full", "causal"]},
        "gate": {"path": "architecture.feed_forward.gate", "levels": [True, False]},
    }
    crossed = {"arms": None, "factor": None, "factors": factors, "baseline": "full+True"}
    with pytest.raises(
        SpecError, match=r"architecture.feed_forward.gate is not a key here; did you mean 'gated'"
    ):
        make_small_plan(study_cache, crossed)


def test_what_is_allowed_for_nothing_is_noted(study_cache: Path) -> None:
    allowed = {
        "training.z_loss": "an old habit",
        "parameters": "they are the question",
        "training.warmup": "for a later stage",
    }
    plan = make_small_plan(study_cache, {"arms.causal.training": {"z_loss": 0.1}, "allow": allowed})
    assert [line.path for line in plan.allowed_lines] == ["training.z_loss"]
    assert list(plan.unused_allowances) == ["parameters", "training.warmup"]


def test_a_target_that_leaves_no_room_is_refused_before_training(study_cache: Path) -> None:
    causal = {
        "base.objective": "causal",
        "base.training.length": 12,
        "arms.full": None,
        "arms.reverse": None,
        "baseline": "causal",
        "arms.window": {"architecture": {"mask": "causal & window(5)"}},
    }
    long = {"primary.measure": {"kind": "halves", "n_items": 5, "max_bytes": 60}}
    room = (
        r"has a target of 1\d tokens, which leaves no room for a context in a window of 12; use"
        r" shorter texts, as "
    )
    with pytest.raises(
        SpecError, match=rf"primary.measure in causal, window: item [0-9a-f]+ {room}"
    ):
        make_small_plan(study_cache, causal | long)
    beside = {"primary.measure": HALVES, "others": [{**long["primary.measure"], "split": "valid"}]}
    with pytest.raises(SpecError, match=r"others.0 in causal, window: item "):
        make_small_plan(study_cache, causal | beside)


def test_an_arm_that_cannot_be_matched_is_refused(study_cache: Path) -> None:
    tight = {"match": {"by": "parameters", "moves": ["depth"], "tolerance": 1e-6}}
    with pytest.raises(
        SpecError,
        match=r"arms.causal: match.moves is depth, but of the .* parameters asked for there",
    ):
        make_small_plan(study_cache, WIDER | tight)


def test_a_budget_must_be_chosen_where_steps_cost_unlike(study_cache: Path) -> None:
    text = {
        "primary.measure": HALVES,
        "arms.reverse": None,
        "arms.full": None,
        "baseline": "causal",
        "factor": "objective",
        "base.objective": "causal",
        "arms.spans": {"objective": "spans"},
        "base.architecture.mask": "causal",
    }
    with pytest.raises(
        SpecError,
        match=r"budget is missing, and the arms' .*tokens_scored differ by .* 'tokens_read'",
    ):
        make_small_plan(study_cache, text)
    plan = make_small_plan(study_cache, text | {"budget": "tokens_scored"})
    assert plan.arms[1].n_steps > plan.arms[0].n_steps
    found = {line.path: line for line in plan.control_lines}
    assert found["training.n_steps"].mark == "≈"
    assert found["tokens_scored in all"].mark in "✓≈"


def test_a_budget_that_whole_steps_cannot_meet_says_how_near_they_come(study_cache: Path) -> None:
    text = {
        "primary.measure": HALVES,
        "arms.reverse": None,
        "arms.full": None,
        "baseline": "causal",
        "seeds": 3,
        "factor": "objective",
        "base.objective": "causal",
        "arms.spans": {"objective": "spans"},
        "base.architecture.mask": "causal",
        "base.training.n_steps": 1,
        "budget": "training_flops",
    }
    with pytest.raises(ConfoundError, match="as near as whole steps come; it is met with training"):
        make_small_plan(study_cache, text)


def test_arms_that_would_be_asked_other_items_are_refused(study_cache: Path) -> None:
    other = {
        "kind": "copy",
        "form": "text",
        "n_documents": 300,
        "n_symbols": 3,
        "min_length": 12,
        "max_length": 12,
    }
    changes = {
        "factor": ["architecture.mask", "corpus.sources"],
        "compound": {"causal": "both at once"},
        "arms.causal.corpus": {"sources": [other]},
    }
    with pytest.raises(
        SpecError,
        match=(
            "corpus: causal would be measured on other 'pseudo' items than full, because the held-"
            "out text differs; hold out the same text in every arm: list the same sources in all"
        ),
    ):
        make_small_plan(study_cache, changes)


def test_arms_may_cut_the_same_text_into_other_tokens(study_cache: Path) -> None:
    tokens = {
        "factor": ["architecture.mask", "corpus.tokenizer"],
        "compound": {"causal": "both at once"},
        "match": "nothing",
        "budget": "tokens_read",
        "arms.causal.corpus": {"tokenizer": {"kind": "bpe", "n_vocab": 260}},
    }
    found = lines(study_cache, tokens)
    assert found["corpus.tokenizer.kind"].mark == "Δ"
    assert found["architecture.n_vocab"].mark == "→"


def test_a_yardstick_without_items_is_refused_before_training(study_cache: Path) -> None:
    with pytest.raises(
        SpecError, match=r"yardstick.split 'test' has no document of 200 bytes or more"
    ):
        make_small_plan(
            study_cache, {"primary.measure": {"kind": "pseudo", "min_bytes": 200, "max_bytes": 300}}
        )


def test_two_arms_may_differ_in_their_name_only(study_cache: Path) -> None:
    plan = make_small_plan(study_cache, {"arms.twin": {"architecture": {"mask": "full"}}})
    assert len(plan.arms) == 4


def test_runs_side_by_side_are_planned_with_the_one_thread_they_have(study_cache: Path) -> None:
    plan = make_small_plan(study_cache, n_jobs=2)
    assert (plan.environment["n_threads"], plan.environment["omp_num_threads"]) == (1, "1")
    assert set(lines(study_cache, n_jobs=2)["threads"].values.values()) == {1}
    alone = make_small_plan(study_cache)
    assert alone.environment["n_threads"] == torch.get_num_threads()
    assert alone.fingerprint == plan.fingerprint


def test_a_design_made_in_python_is_checked_and_has_the_same_fingerprint(study_cache: Path) -> None:
    made = Design.model_validate(load_design(design_table()).model_dump())
    plan = make_plan(
        made,
        "design",
        None,
        Execution(Workspace(cache=study_cache, device="cpu")),
        show_progress=False,
    )
    assert plan.fingerprint == make_small_plan(study_cache).fingerprint
    with pytest.raises(SpecError, match="seeds has 2"):
        make_plan(
            made.model_copy(update={"seeds": (1, 2)}),
            "design",
            None,
            Execution(Workspace(cache=study_cache, device="cpu")),
        )
    with pytest.raises(SpecError, match="seeds has 2"):
        find_design(made.model_copy(update={"seeds": (1, 2)}))


def test_the_fingerprint_is_of_what_decides_and_of_nothing_else(study_cache: Path) -> None:
    own = make_small_plan(study_cache).fingerprint
    assert (
        make_small_plan(
            study_cache, {"question": "Why?", "prompts": ["aab"], "reference": "t5"}
        ).fingerprint
        == own
    )
    for changes in (
        {"seeds": 4},
        {"primary.margin": 0.4},
        {"base.training.warmup": 1},
        {"control": "causal"},
    ):
        assert make_small_plan(study_cache, changes).fingerprint != own


def test_pairs_are_counted_and_part_of_the_fingerprint(study_cache: Path) -> None:
    plain, paired = (
        make_small_plan(study_cache),
        make_small_plan(study_cache, {"comparisons": [["causal", "reverse"]]}),
    )
    assert (plain.n_comparisons, paired.n_comparisons) == (2, 1)
    assert paired.design_fingerprint != plain.design_fingerprint
    assert described(paired)["design"]["comparisons"] == [["causal", "reverse"]]


def test_a_plan_is_described_in_plain_values_in_the_order_of_its_arms(
    study_cache: Path, tmp_path: Path
) -> None:
    plan = make_small_plan(study_cache, {"looks": {"3": 0.05}})
    Study(tmp_path, tmp_path).write_plan(described(plan))
    told = Study(tmp_path, tmp_path).read_plan()
    assert told["order"] == ["full", "reverse", "causal"]
    assert told["fingerprint"] == plan.fingerprint
    assert told["design"]["looks"] == {"3": 0.05}
    assert {line["path"]: line["mark"] for line in told["control"]}["architecture.mask"] == "Δ"


def test_the_cost_counts_sweeps_and_runs(
    study_cache: Path, tmp_path: Path, finished_home: Path
) -> None:
    plan = make_small_plan(study_cache, {"tune": {"share": 0.5}})
    cost = estimate_cost(plan, Workspace(tmp_path, device="cpu"))
    assert (cost.n_runs, cost.n_sweep_runs) == (3 * 3 + 48, 48)
    per_run = plan.arms[0].step_cost.training_flops * N_STEPS
    assert cost.flops == pytest.approx(per_run * 3 * (3 + 8))
    assert cost.basis == "guessed from a few matrix products"
    assert cost.seconds > 0
    bracketed = estimate_cost(
        make_small_plan(study_cache, {"tune": {"share": 0.5, "bracket": True}}),
        Workspace(tmp_path, device="cpu"),
    )
    assert (bracketed.n_runs, bracketed.n_sweep_runs) == (3 * 9 + 48, 48)
    assert bracketed.flops == pytest.approx(per_run * 3 * (9 + 8))
    assert bracketed.flops_per_seed == pytest.approx(3 * cost.flops_per_seed)
    earlier = estimate_cost(plan, Workspace(finished_home, device="cpu"))
    assert earlier.basis == "at the pace of 9 earlier runs"


def test_a_damaged_run_is_no_reason_not_to_plan(study_cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / "spec.json").write_text('{"stages": [{}]}')
    (folder / "state").write_text("finished\n")
    (folder / "rows.jsonl").write_text('{"step": 1, "seconds": 2.0, "dense_flops": 0.0}\n')
    cost = estimate_cost(make_small_plan(study_cache), Workspace(tmp_path, device="cpu"))
    assert cost.basis == "guessed from a few matrix products"
    (folder / "rows.jsonl").write_text('{"step": 1, "seconds": 2.0, "dense_flops": 9.0}\n')
    assert (
        estimate_cost(make_small_plan(study_cache), Workspace(tmp_path, device="cpu")).basis
        == "guessed from a few matrix products"
    )


def test_a_design_that_was_read_has_no_scale_left_to_choose() -> None:
    with pytest.raises(
        SpecError, match="scale is 'smoke' of a design that was read already; give it, and changes"
    ):
        find_design(load_design(design_table()), "smoke")


def test_a_notebook_shows_the_control_table_with_its_text_escaped(study_cache: Path) -> None:
    shown = make_small_plan(study_cache, {"question": "Is a < b & c?"})._repr_html_()
    assert shown.startswith("<p>Is a &lt; b &amp; c?</p><table>")
    assert "<tr><td>Δ</td><td>architecture.mask</td>" in shown
    assert shown.index("<td>Δ</td>") < shown.index("<td>✓</td>")
