"""Rows of all probes made by hand, and a study whose runs keep them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from handmade_study import ENVIRONMENT, N_STEPS, make_study

from paribus.record import Study
from paribus.record.probe_rows import ProbeRow, probe_rows_path, write_probe_rows
from paribus.record.task_answers import (
    TaskAnswer,
    TaskEvaluation,
    TaskHead,
    task_evaluation_path,
    write_task_evaluation,
)

QUANTITY = "effective rank over the most there can be"
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
    for position in range(1, 65):
        rows.append(
            ProbeRow(
                probe="in_context",
                quantity="loss",
                value=3 / position + shift,
                n=4,
                x=position,
                x_name="position",
            )
        )
    return rows


def _rank_rows(n_layers: int, n_heads: int, shift: float) -> Iterator[ProbeRow]:
    places = (("encoder", "attention"), ("stack", "attention"), ("stack", "cross"))
    for stack, branch in places:
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


def make_probed_study(root: Path, keeps_rows: bool = True, **changes: Any) -> Study:
    """The small study with a probe among its other yardsticks."""
    study = make_study(root, **changes)
    plan = study.read_plan()
    plan["design"]["others"] = [YARDSTICK]
    study.write_plan(plan)
    for place, arm in enumerate(plan["order"]):
        for cell in study.read_cells():
            if cell.arm == arm:
                _write_findings(root / cell.run, place + cell.seed / 10, keeps_rows)
    return study


def _write_findings(folder: Path, value: float, keeps_rows: bool) -> None:
    """The answer of a run, and the rows that it is made from."""
    measure, protocol = f"rank: {QUANTITY}", {"kind": "probe"}
    head = TaskHead(
        task=YARDSTICK,
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
    path = task_evaluation_path(folder, YARDSTICK, protocol, "7" * 64)
    write_task_evaluation(path, TaskEvaluation(head, answers))
    if keeps_rows:
        rows_path = probe_rows_path(folder, PROBE, TEXTS, WEIGHTS)
        rows_path.parent.mkdir()
        write_probe_rows(rows_path, all_probe_rows(2, 3, value / 100))
