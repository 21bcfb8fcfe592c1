"""Rows of all probes made by hand, and a study whose runs keep them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from handmade_study import ENVIRONMENT, N_STEPS, make_study

from paribus.record import Study
from paribus.record.attention_maps import MAX_LEVEL, MAX_SIDE, AttentionMap
from paribus.record.probe_rows import ProbeRow, probe_rows_path, write_probe_rows
from paribus.record.task_answers import (
    TaskAnswer,
    TaskEvaluation,
    TaskHead,
    task_evaluation_path,
    write_task_evaluation,
)

QUANTITY = "effective rank over the most there can be"
PLACES = (("encoder", "attention"), ("stack", "attention"), ("stack", "cross"))
TEXTS, WEIGHTS = "5" * 64, "6" * 64
PROBE = {"kind": "rank", "n_texts": 2, "length": 16, "score_sds": [1.0], "n_directions": [1]}
YARDSTICK = {
    "kind": "probe",
    "probe": PROBE,
    "quantity": QUANTITY,
    "stack": "stack",
    "branch": "attention",
    "variant": "",
    "split": "test",
}


def all_probe_rows(n_layers: int, n_heads: int, shift: float = 0.0) -> list[ProbeRow]:
    """What every probe finds in an encoder-decoder with experts, in some made-up shape."""
    rows = list(_rank_rows(n_layers, n_heads, shift))
    rows += _depth_rows(n_layers, shift)
    rows += _expert_rows(n_layers, shift)
    rows += _flow_rows(n_layers, n_heads, shift)
    rows += _context_rows(shift)
    rows += _gradient_rows(n_layers, shift)
    rows += _corruption_rows(shift)
    rows += _demonstration_rows(shift)
    rows += _descent_rows(n_layers, shift)
    return rows


def _flow_rows(n_layers: int, n_heads: int, shift: float) -> Iterator[ProbeRow]:
    everywhere = ("attention entropy", "weight on the first token")
    own = ("attention distance", "weight on itself", "weight on the most attended token")
    for stack, branch in PLACES:
        for quantity in everywhere if branch == "cross" else (*own, *everywhere):
            for variant in ("", "uniform attention"):
                for layer in range(n_layers):
                    for head in range(n_heads):
                        yield ProbeRow(
                            probe="flow",
                            quantity=quantity,
                            value=1 / (1 + layer + head) + shift,
                            n=4,
                            stack=stack,
                            branch=branch,
                            layer=layer,
                            head=head,
                            variant=variant,
                        )
    flow: dict[str, Any] = {"probe": "flow", "n": 4}
    for distance in (0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 14, 18, 23, 29, 37, 47, 60, 76):
        curve: dict[str, Any] = {"stack": "stack", "x": distance, "x_name": "distance"}
        for quantity in ("gradient norm", "share of the gradient"):
            yield ProbeRow(**flow, **curve, quantity=quantity, value=0.3 / (1 + distance))
    for stack in ("stack", "encoder"):
        for depth in range(n_layers + 1):
            at: dict[str, Any] = {"stack": stack, "x": depth, "x_name": "depth"}
            yield ProbeRow(**flow, **at, quantity="reached pairs", value=min(1.0, 0.1 + depth))


def _context_rows(shift: float) -> Iterator[ProbeRow]:
    context: dict[str, Any] = {"probe": "context", "n": 4}
    for variant, x_name, tokens in (
        ("", "tokens of context", (4, 8, 16, 32)),
        ("context shuffled", "tokens in order", (0, 4, 8, 16)),
        ("", "position", (9, 10, 11)),
    ):
        for x in tokens:
            at: dict[str, Any] = {"variant": variant, "x": x, "x_name": x_name}
            yield ProbeRow(**context, **at, quantity="loss", value=3 / (1 + x) + shift)
    yield ProbeRow(**context, quantity="effective context", value=16)


def _gradient_rows(n_layers: int, shift: float) -> Iterator[ProbeRow]:
    for variant in ("", "untrained", "step 7"):
        row: dict[str, Any] = {"probe": "gradients", "n": 4, "variant": variant}
        yield ProbeRow(**row, quantity="gradient norm per target", value=1 + shift)
        for stack in ("encoder", "stack"):
            for layer in range(n_layers):
                norm = (1 + len(variant)) / (1 + layer) + shift
                at: dict[str, Any] = {"stack": stack, "layer": layer}
                yield ProbeRow(**row, **at, quantity="gradient norm", value=norm)


def _corruption_rows(shift: float) -> Iterator[ProbeRow]:
    for variant, scale in (("", 1.0), ("masked", 0.9), ("spans", 1.2)):
        row: dict[str, Any] = {"probe": "corruption", "n": 4, "variant": variant}
        yield ProbeRow(**row, quantity="loss, corrupted input", value=3 * scale + shift)
        yield ProbeRow(**row, quantity="loss, plain input", value=2.5 * scale + shift)
        yield ProbeRow(**row, quantity="cost of corruption", value=0.5 * scale)


def _demonstration_rows(shift: float) -> Iterator[ProbeRow]:
    for number in range(1, 8):
        row: dict[str, Any] = {"probe": "in-context", "n": 4, "x": number}
        row["x_name"] = "demonstrations"
        for quantity in ("nats", "accuracy", "mass of symbols", "squared error"):
            yield ProbeRow(**row, quantity=quantity, value=1 / number + shift)
        for variant in ("ridge", "mean"):  # what they answer does not depend on the run
            at: dict[str, Any] = {**row, "variant": variant}
            yield ProbeRow(**at, quantity="squared error", value=len(variant) / number)
            yield ProbeRow(**at, quantity="squared difference", value=shift + 1 / number)


def _descent_rows(n_layers: int, shift: float) -> Iterator[ProbeRow]:
    controls = {
        "SimAOU": "random update",
        "SimAM": "before tuning",
        "Kendall's tau": "random attention",
    }
    for variant in ("", "untrained"):
        for quantity, control in controls.items():
            for layer in range(n_layers):
                row: dict[str, Any] = {"probe": "descent", "n": 4, "variant": variant}
                row |= {"stack": "stack", "branch": "attention", "layer": layer}
                yield ProbeRow(**row, quantity=quantity, value=0.1 + shift / 10)
                yield ProbeRow(**row, quantity=f"{quantity}, {control}", value=0.01 * layer)


def _rank_rows(n_layers: int, n_heads: int, shift: float) -> Iterator[ProbeRow]:
    for stack, branch in PLACES:
        for variant in ("", "scores at sd 1", "scores at sd 4"):
            for layer in range(n_layers):
                here: dict[str, Any] = {
                    "probe": "rank",
                    "n": 4,
                    "stack": stack,
                    "branch": branch,
                    "variant": variant,
                    "layer": layer,
                }
                for head in range(n_heads):
                    value = (1 + head + shift) / (n_heads + 2 + layer)
                    yield ProbeRow(**here, quantity=QUANTITY, value=value, head=head)
                    yield ProbeRow(**here, quantity="log |det|", value=-100 * value, head=head)
                for name, factor in (
                    ("median over heads", 1.0),
                    ("lowest tenth", 0.5),
                    ("highest tenth", 1.5),
                ):
                    for number in (1, 2, 4, 8, 16, 32, 64):
                        value = min(1.0, factor * number ** -(1 + shift))
                        yield ProbeRow(
                            **here,
                            quantity=f"singular value, {name}",
                            value=value,
                            x=number,
                            x_name="number of the singular value",
                        )


def _depth_rows(n_layers: int, shift: float) -> Iterator[ProbeRow]:
    found = {
        "collapse": ("residual over norm", ("", "without skips", "attention alone")),
        "positions": ("distance to the true position", ("", "positions shuffled")),
    }
    for probe, (quantity, variants) in found.items():
        for stack in ("encoder", "stack"):
            for state in ("", "untrained"):
                for variant in variants:
                    name = ", ".join(filter(None, (state, variant)))
                    for depth in range(n_layers + 1):
                        value = 1 / (1 + depth + len(variant)) + shift
                        yield ProbeRow(
                            probe=probe,
                            quantity=quantity,
                            value=value,
                            n=4,
                            stack=stack,
                            variant=name,
                            x=depth,
                            x_name="depth",
                        )


def _expert_rows(n_layers: int, shift: float) -> Iterator[ProbeRow]:
    for layer in range(n_layers):
        here: dict[str, Any] = {"probe": "experts", "n": 64, "stack": "stack", "layer": layer}
        for quantity in ("first expert stays", "first expert stays, by chance"):
            yield ProbeRow(**here, quantity=quantity, value=0.3 + shift)
        for expert in range(4):
            at: dict[str, Any] = {"x": expert, "x_name": "expert"}
            yield ProbeRow(**here, **at, quantity="load", value=expert / 2)
            for domain in ("secret-books", "python-code"):
                yield ProbeRow(
                    **here, **at, quantity="share of tokens", value=expert / 6, variant=domain
                )
        for step in (100, 200):
            over: dict[str, Any] = {"x": step, "x_name": "step"}
            yield ProbeRow(**here, **over, quantity="saturation", value=0.7 + step / 1000)
            yield ProbeRow(**here, **over, quantity="saturation, by chance", value=0.25)


def causal_maps(run: str, n_maps: int) -> list[AttentionMap]:
    """Equal attention of some layers under a causal mask, as large as a map can be."""
    maps = []
    for layer in range(n_maps):
        visible = bytes(key <= query for query in range(MAX_SIDE) for key in range(MAX_SIDE))
        levels = bytes(MAX_LEVEL * seen for seen in visible)
        maps.append(
            AttentionMap(
                run=run,
                stack="stack",
                branch="attention",
                layer=layer,
                head=0,
                n_queries=MAX_SIDE,
                n_keys=MAX_SIDE,
                n_rows=MAX_SIDE,
                n_columns=MAX_SIDE,
                largest=0.5,
                levels=base64.b64encode(levels).decode(),
                visible=base64.b64encode(visible).decode(),
            )
        )
    return maps


def study_rows(shift: float = 0.0) -> list[ProbeRow]:
    """What a run of the small study keeps: rows of a few probes in one file."""
    rows = [*_rank_rows(2, 3, shift), *_expert_rows(2, shift), *_context_rows(shift)]
    return [row for row in rows if row.stack != "encoder"]


def make_probed_study(
    root: Path,
    keeps_rows: bool = True,
    yardsticks: Sequence[dict[str, Any]] = (YARDSTICK,),
    **changes: Any,
) -> Study:
    """The small study with probes among its other yardsticks. A probe of more texts finds more by
    a hundredth for each.
    """
    study = make_study(root, **changes)
    plan = study.read_plan()
    plan["design"]["others"] = list(yardsticks)
    study.write_plan(plan)
    for place, arm in enumerate(plan["order"]):
        for cell in study.read_cells():
            if cell.arm == arm:
                for yardstick in yardsticks:
                    value = place + cell.seed / 10 + yardstick["probe"]["n_texts"] - 2
                    _write_findings(root / cell.run, yardstick, value, keeps_rows)
    return study


def _write_findings(
    folder: Path, yardstick: dict[str, Any], value: float, keeps_rows: bool
) -> None:
    """The answer of a run, and the rows that it is made from."""
    measure, protocol = f"rank: {yardstick['quantity']}", {"kind": "probe"}
    head = TaskHead(
        task=yardstick,
        name=measure,
        measure=measure,
        label="probe",
        protocol=protocol,
        component={},
        step=N_STEPS - 1,
        weights=WEIGHTS,
        window=16,
        items=TEXTS,
        n_items=1,
        n_truncated=0,
        n_left_out=0,
        text="7" * 64,
        floors={},
        summary={measure: value},
        environment=ENVIRONMENT,
    )
    answers = (TaskAnswer("all texts", "all texts", value, 1.0, "", ""),)
    path = task_evaluation_path(folder, yardstick, protocol, "7" * 64)
    write_task_evaluation(path, TaskEvaluation(head, answers))
    if keeps_rows:
        rows_path = probe_rows_path(folder, yardstick["probe"], TEXTS, WEIGHTS)
        rows_path.parent.mkdir(exist_ok=True)
        write_probe_rows(rows_path, study_rows(value / 100))
