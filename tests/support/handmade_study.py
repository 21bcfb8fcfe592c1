"""A finished study made by hand: plan, cells, run folders, rows and answers, without torch and
in milliseconds.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from run_state import write_state

from paribus.record import (
    Answer,
    CellRecord,
    Evaluation,
    EvaluationHead,
    RowWriter,
    Study,
    evaluation_path,
    open_study,
    write_evaluation,
)
from paribus.record.disk import write_json
from paribus.record.plan import PlanRecord, parse_plan
from paribus.record.samples import ItemText, PromptSample, write_item_texts, write_samples
from paribus.spec import price, resolve
from paribus.spec.design_reading import load_design
from paribus.spec.run import RunSpec, load_run

SEEDS = (1, 2, 3, 4)
N_STEPS, N_ITEMS, N_BYTES = 30, 12, 31
ENVIRONMENT = {
    "python": "3.11.7",
    "torch": "2.13.0",
    "numpy": "2.4.6",
    "system": "Linux",
    "machine": "m1",
    "processor": "p1",
    "cpu_capability": "v1",
    "n_threads": 1,
    "device": "cpu",
    "code": "c0de" * 16,
}
GAINS = {"causal": 0.0, "prefix": 0.004, "input hidden": -0.5}  # bits a byte over the baseline
MASKS = {"causal": "causal", "prefix": "prefix", "input hidden": "causal & same_side"}
MANY_ARMS = {
    **GAINS,
    "long-window+near": 0.1,
    "short-window+near": -0.02,
}  # arms, too many for a table to have abreast
WINDOWS = ("causal & window(23)", "causal & window(7)")  # their masks


def make_study(
    root: Path,
    *,
    name: str = "small",
    gains: Mapping[str, float] = GAINS,
    changes: Mapping[str, Any] | None = None,
    speeds: Mapping[str, float] | None = None,
    rates: Mapping[str, Any] | None = None,
    prompt: str = "once upon",
    text: str = "a document",
    failed: Sequence[tuple[str, int]] = (),
    seeds: Sequence[int] = SEEDS,
) -> Study:
    """A study of three arms, or those of `MANY_ARMS`, and four seeds, or more.

    `gains` shift an arm's scores, `speeds` how much text it reads a step.
    """
    root.mkdir(parents=True, exist_ok=True)
    made = open_study(root, name)
    plan = _plan_table(name, gains, dict(changes or {}), rates is not None)
    plan["design"]["seeds"] = list(seeds)
    made.write_plan(plan)
    if rates is not None:
        made.write_rates(rates)
    cells = [
        CellRecord(arm, seed, 0.004, "reported", f"{place:x}{seed:015x}", N_STEPS)
        for place, arm in enumerate(gains)
        for seed in seeds
    ]
    made.add_cells(cells)
    made.freeze(plan["fingerprint"], "d" * 64, plan["rule"], ENVIRONMENT["code"])
    for cell in cells:
        speed = (speeds or {}).get(cell.arm, 1.0)
        write_run(
            root / cell.run, cell, gains[cell.arm], speed, plan, (cell.arm, cell.seed) in failed
        )
    write_samples(
        made,
        [
            PromptSample(
                prompt, dict.fromkeys(list(gains)[1:], text), {next(iter(gains)): "it cannot"}
            )
        ],
    )
    write_item_texts(
        made,
        {
            f"item{number}": ItemText(f"{text} ", f"{text}, part {number}")
            for number in range(N_ITEMS)
        },
    )
    return made


def plan_table(name: str, tuned: bool = False) -> dict[str, Any]:
    """The plan of the small study as plain values, in the first format."""
    return json.loads(json.dumps(_plan_table(name, GAINS, {}, tuned)))


def plan_of_arms(
    levels: Mapping[str, Mapping[str, str]], edition: int = 2, **design: Any
) -> PlanRecord:
    """A plan of these arms, each with its levels, and with these fields of its design."""
    table = plan_table("small")
    table["arms"] = {
        arm: {**table["arms"]["causal"], "levels": dict(own)} for arm, own in levels.items()
    }
    table["design"] |= design
    return parse_plan({**table, "edition": edition, "order": list(levels)}, Path("plan.json"))


def _plan_table(
    name: str, gains: Mapping[str, float], changes: dict[str, Any], tuned: bool
) -> dict[str, Any]:
    base = {
        "architecture": {
            "preset": "gpt2",
            "positions": "rotary",
            "n_layers": 2,
            "d_model": 32,
            "attention": {"n_heads": 2},
        },
        "corpus": {"sources": [{"kind": "translation", "n_documents": 400, "form": "text"}]},
        "objective": "prefix",
        "training": {
            "n_steps": N_STEPS,
            "n_sequences": 8,
            "length": 64,
            "optimizer": {"rate": 0.004},
        },
    }
    table = {
        "question": "Does it help?",
        "factor": "architecture.mask",
        "baseline": "causal",
        "control": "input hidden",
        "seeds": list(SEEDS),
        "tune": tuned,
        "primary": {"measure": "halves", "margin": 0.02},
        "base": base,
        "arms": {arm: {"architecture": {"mask": mask}} for arm, mask in MASKS.items()},
        "prompts": ["once upon"],
    }
    design = load_design(table).model_dump(mode="json")
    masks = (*MASKS.values(), *WINDOWS)[: len(gains)]
    runs = [
        load_run({**base, "architecture": {**base["architecture"], "mask": mask}}) for mask in masks
    ]
    arms = {arm: _arm_table(arm, run) for arm, run in zip(gains, runs, strict=True)}
    names = list(gains)
    design["control"] = names[2]
    plan: dict[str, Any] = {
        "name": name,
        "scale": None,
        "question": design["question"],
        "reference": None,
        "fingerprint": "f" * 64,
        "design": design,
        "declared": ["architecture.mask"],
        "order": names,
        "arms": arms,
        "control": [
            _control_line("architecture.mask", "Δ", dict(zip(names, masks, strict=True))),
            _control_line("architecture.d_model", "✓", dict.fromkeys(names, 32)),
            _control_line("epochs", "✓", dict.fromkeys(names, "0.7")),
            _control_line("starting weights in common", "✓", dict.fromkeys(names, 1.0)),
        ],
        "environment": ENVIRONMENT,
        "rule": "paired t",
    }
    return {**plan, **changes}


def _arm_table(arm: str, run: RunSpec) -> dict[str, Any]:
    work = {
        "tokens_read": 512.0,
        "tokens_scored": 250.0,
        "bytes_read": 500.0,
        "training_flops": 1e8,
        "n_input": 32.0,
        "n_target": 32.0,
    }
    return {
        "levels": {"arm": arm},
        "run": run.model_dump(mode="json"),
        "text": "7" * 64,
        "work": work,
        "price": asdict(price(resolve(run.architecture), 64, None, 32)),
    }


def _control_line(path: str, mark: str, values: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"path": path, "mark": mark, "values": dict(values), "note": "", "allowed": None, **more}


def write_run(
    folder: Path, cell: CellRecord, gain: float, speed: float, plan: Mapping[str, Any], failed: bool
) -> None:
    folder.mkdir()
    write_json(folder / "spec.json", {"stages": [{}]})
    write_json(folder / "environment.json", [ENVIRONMENT])
    with RowWriter(folder / "rows.jsonl") as rows:
        for step in range(2, N_STEPS, 3):
            rows.write(make_row(step, gain, speed, cell.seed))
    if failed:
        write_state(
            folder / "state", "failed", "DivergedError: the loss is nan at step 7; use a lower rate"
        )
        return
    write_state(folder / "state", "finished")
    yardstick = plan["design"]["primary"]["measure"]
    head = EvaluationHead(
        yardstick,
        "likelihood",
        {},
        N_STEPS - 1,
        "0" * 64,
        64,
        "1" * 64,
        N_ITEMS,
        0,
        "7" * 64,
        None,
        {},
    )
    answers = tuple(make_answer(number, gain, cell) for number in range(N_ITEMS))
    write_evaluation(evaluation_path(folder, yardstick, head.items), Evaluation(head, answers))


def make_row(step: int, gain: float, speed: float, seed: int) -> dict[str, Any]:
    n, tokens = step + 1, round(512 * (step + 1) * speed)
    bits = (
        3
        - 0.2 * math.log(tokens / 512)
        + 0.01 * math.sin(seed * (1 + 3 * speed))
        - gain * n / N_STEPS
    )
    return {
        "step": step,
        "tokens_read": tokens,
        "tokens_scored": tokens // 2,
        "bytes_scored": tokens // 2,
        "dense_flops": 2e5 * tokens,
        "seconds": 0.1 * n + 0.001 * seed,
        "nats": 2.0,
        "rate": 0.004,
        "valid_nats": bits * math.log(2),
    }


def make_answer(number: int, gain: float, cell: CellRecord) -> Answer:
    noise = 0.01 * math.sin(7 * cell.seed + number) + 0.003 * math.sin(
        3 * cell.seed * (1 + gain) + 5 * gain
    )
    bits = 2.2 + 0.05 * number - gain * (1 + 0.1 * math.sin(number)) + noise
    return Answer(
        f"item{number}", bits * math.log(2) * N_BYTES, N_BYTES, N_BYTES, 0, f"document{number}"
    )


def sweep_record(arms: Sequence[str], best: float = 0.004) -> dict[str, Any]:
    """What a sweep of every arm found: a parabola with its vertex at `best`."""
    grid = [best * 2.0**place for place in (-2, -1, 0, 1, 2)]
    points = [[rate, 2.0 + 0.1 * math.log2(rate / best) ** 2] for rate in grid for _ in range(2)]
    x = math.log2(best)
    optimum = {
        "rate": best,
        "inside": True,
        "coefficients": [0.1, -0.2 * x, 2 + 0.1 * x * x],
        "left_out": [],
        "needs": [],
        "remark": "",
    }
    return {arm: {"rate": best, "points": points, "optimum": optimum} for arm in arms}


def make_study_at_look(root: Path, *, begun: bool = False) -> Study:
    """A study at the first of two looks: the runs of its last seed have not begun, or have
    begun and not ended.
    """
    there = make_study(root)
    plan = there.read_plan()
    plan["design"]["looks"] = {"3": 0.01, "4": 0.04}
    there.write_plan(plan)
    for cell in there.read_cells():
        if cell.seed == SEEDS[-1]:
            shutil.rmtree(root / cell.run / "evaluations")
            write_state(root / cell.run / "state", "running")
            if not begun:
                shutil.rmtree(root / cell.run)
    return there


def set_arm_rates(
    study: Study, rates: Mapping[str, float], declared: Sequence[str] = ("architecture.mask",)
) -> Study:
    """The same study as if each arm had been written with a rate of its own, and nothing tuned."""
    plan = study.read_plan()
    for arm, rate in rates.items():
        plan["arms"][arm]["run"]["stages"][-1]["training"]["optimizer"]["rate"] = rate
    study.write_plan({**plan, "declared": list(declared)})
    return study


def add_first_stage(
    study: Study, first_work: Mapping[str, Mapping[str, float]] | None = None
) -> Study:
    """The same study as if each arm had been pretrained for 60 steps on other text, on which a
    step does as much as one of its last stage; `first_work` has what is another in an arm.
    """
    plan = study.read_plan()
    for arm, table in plan["arms"].items():
        (last,) = table["run"]["stages"]
        first = json.loads(json.dumps(last))
        first["kind"] = "pretrain"
        first["objective"] = {"kind": "causal"}
        first["corpus"]["sources"] = [{"kind": "python-docs", "part": "all", "weight": 1.0}]
        first["training"]["n_steps"] = 60
        table["run"]["stages"] = [first, {**last, "kind": "tune"}]
        work = {**table["work"], "positions_computed": 512.0}
        table["earlier_work"] = [{**work, **(first_work or {}).get(arm, {})}]
        table["earlier_texts"] = ["5" * 64]
    study.write_plan(plan)
    return study


def rewrite_plan(study: Study, **changes: Any) -> None:
    """The plan on disk with some of its tables changed."""
    plan = json.loads(json.dumps(study.read_plan()))
    study.write_plan({**plan, **changes})


def add_lengths(
    study: Study,
    slopes: Mapping[str, float],
    noise: Mapping[int, float] | None = None,
    gains: Mapping[str, float] = GAINS,
) -> Study:
    """The same study with runs at 0.25 and 0.5 of the length, worse by an arm's slope for each
    e-fold of tokens.

    `noise` is added to the slope of a seed.
    """
    plan = study.read_plan()
    plan["design"]["lengths"] = [0.25, 0.5, 1.0]
    study.write_plan(plan)
    for place, (arm, slope) in enumerate(slopes.items()):
        for seed in SEEDS:
            for n_steps in (8, 15):
                run = f"{place + 8:x}{n_steps:x}{seed:014x}"
                cell = CellRecord(
                    arm, seed, 0.004, "length", run, n_steps, plan.get("design_fingerprint", "")
                )
                study.add_cells([cell])
                own = slope + (noise or {}).get(seed, 0.0)
                _write_length_run(
                    study.root / run, cell, gains[arm], own * math.log(N_STEPS / n_steps), plan
                )
    return study


def _write_length_run(
    folder: Path, cell: CellRecord, gain: float, worse: float, plan: Mapping[str, Any]
) -> None:
    folder.mkdir()
    write_json(folder / "spec.json", {"stages": [{}]})
    write_json(folder / "environment.json", [ENVIRONMENT])
    with RowWriter(folder / "rows.jsonl") as rows:
        rows.write(make_row(cell.n_steps - 1, gain, 1.0, cell.seed))
    write_state(folder / "state", "finished")
    yardstick = plan["design"]["primary"]["measure"]
    head = EvaluationHead(
        yardstick,
        "likelihood",
        {},
        cell.n_steps - 1,
        "0" * 64,
        64,
        "1" * 64,
        N_ITEMS,
        0,
        "7" * 64,
        None,
        {},
    )
    answers = [make_answer(number, gain, cell) for number in range(N_ITEMS)]
    longer = tuple(replace(one, nats=one.nats + worse * math.log(2) * N_BYTES) for one in answers)
    write_evaluation(evaluation_path(folder, yardstick, head.items), Evaluation(head, longer))
