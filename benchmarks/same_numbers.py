"""Are all numbers the same as before a change that should not touch them? Through the command
line alone, on a CPU.

    python benchmarks/same_numbers.py --write before.json     # at the commit before
    python benchmarks/same_numbers.py --compare before.json   # after the change

Every preset is trained for 20 steps on every objective that it permits. Compared are the weights,
the rows but for their seconds, the answers of an evaluation and the text of a generation. Then a
design at smoke is run and reported: its verdicts. Names of files, fields and keys may change;
numbers, and the names of parameters in a checkpoint, may not.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import io
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from paribus.cli import main as paribus

OBJECTIVES = (
    "causal",
    "reverse",
    "prefix",
    "masked",
    "last_token",
    "spans",
    "continuation",
    "seq2seq",
    "ul2",
)
DESIGNS = ("bidirectional-input", "mixed-attention")
LATENT = {
    "n_heads": 2,
    "d_latent": 16,
    "d_query_latent": 16,
    "d_content": 8,
    "d_rotary": 8,
    "d_value": 16,
}
ROUTER = {"n_groups": 1, "n_active_groups": 1}
SMALL: dict[str, dict[str, Any]] = {
    "deepseek-v3": {
        "attention": LATENT,
        "feed_forward": {
            "n_experts": 4,
            "n_active": 2,
            "d_expert": 16,
            "n_dense_layers": 1,
            "d_ff": 32,
            "router": ROUTER,
        },
    },
    "mixtral": {
        "attention": {"n_heads": 2, "n_kv_heads": 1},
        "feed_forward": {"n_experts": 4, "n_active": 2, "d_expert": 16},
    },
    "switch": {"feed_forward": {"n_experts": 4, "d_expert": 16}},
    "llama": {"attention": {"n_heads": 2, "n_kv_heads": 1}},
}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def output_of(*arguments: str) -> str:
    """What a command prints; RuntimeError where it fails."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = paribus(list(arguments))
    if status:
        raise RuntimeError(err.getvalue().strip())
    return out.getvalue()


def spec_of(preset: str, objective: str, has_encoder: bool) -> dict[str, Any]:
    """A run of 20 steps on an invented language, with dropout."""
    architecture: dict[str, Any] = {"preset": preset, "n_layers": 2, "d_model": 32, "dropout": 0.1}
    architecture |= {"attention": {"n_heads": 2}} | SMALL.get(preset, {})
    architecture |= {"encoder": {"n_layers": 2}} if has_encoder else {}
    form = "pairs" if objective == "seq2seq" else "text"
    source = {"kind": "copy", "form": form, "n_documents": 400, "min_length": 8, "max_length": 20}
    training = {
        "n_steps": 20,
        "n_sequences": 4,
        "length": 48,
        "warmup": 4,
        "row_every": 5,
        "valid_every": 10,
        "valid_batches": 1,
        "checkpoint_every": 10,
        "optimizer": {"rate": 0.003},
    }
    return {
        "architecture": architecture,
        "corpus": {"sources": [source]},
        "objective": objective,
        "training": training,
    }


def numbers_of_run(home: Path, preset: str, objective: str, has_encoder: bool) -> dict[str, Any]:
    """Digests of everything a run leaves behind, or why it is refused."""
    name = f"{preset}-{objective}"
    path = home / f"{name}.json"
    path.write_text(json.dumps(spec_of(preset, objective, has_encoder)))
    runs, cache, device = (
        ("--runs", str(home / "runs")),
        ("--cache", str(home / "cache")),
        ("--device", "cpu"),
    )
    try:
        output_of("train", str(path), "--name", name, *runs, *cache, *device)
    except RuntimeError:
        return {"refused": True}
    run = home / "runs" / name
    newest = sorted((run / "checkpoints").iterdir())[-1]
    found = {
        "weights": digest_of_weights(newest / "weights.safetensors"),
        "rows": digest_of_rows(run / "rows.jsonl"),
    }
    with contextlib.suppress(RuntimeError):
        output_of("evaluate", name, "--items", "8", *runs, *cache, *device)
        found["answers"] = digest_of_answers(run)
    with contextlib.suppress(RuntimeError):
        found["text"] = sha256(output_of("generate", name, "abc", "--tokens", "8", *runs))
    return found


def digest_of_weights(path: Path) -> str:
    total = hashlib.sha256()
    for name, tensor in sorted(load_file(path).items()):
        total.update(
            f"{name} {tuple(tensor.shape)} ".encode() + tensor.to(torch.float32).numpy().tobytes()
        )
    return total.hexdigest()[:16]


def digest_of_rows(path: Path) -> str:
    """Of every number in the rows but the seconds, whatever its name."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return sha256(
        repr([sorted(numbers(row, without=("seconds", "compile_seconds"))) for row in rows])
    )


def digest_of_answers(run: Path) -> str:
    (path,) = (run / "evaluations").glob("*.jsonl")
    _, *answers = [json.loads(line) for line in path.read_text().splitlines()]
    return sha256(repr([sorted(numbers(answer, without=())) for answer in answers]))


def numbers(table: dict[str, Any], without: tuple[str, ...]) -> list[float]:
    kept = [value for name, value in table.items() if name not in without]
    return [value for value in kept if isinstance(value, int | float)]


def numbers_of_study(home: Path, design: str) -> dict[str, Any]:
    """Every number of a design's verdicts at smoke."""
    places = ("--runs", str(home / "studies"))
    output_of(
        "run",
        design,
        "--scale",
        "smoke",
        "--cache",
        str(home / "cache"),
        "--device",
        "cpu",
        *places,
    )
    out = home / design
    output_of("report", f"{design}-smoke", "--format", "csv", "--out", str(out), *places)
    (path,) = out.rglob("verdicts.csv")
    with path.open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row if NUMBER.fullmatch(cell)]
    return {"n_numbers": len(cells), "verdicts": sha256(" ".join(cells))}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def numbers_of_all(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for table in json.loads(output_of("show", "--json")):
        preset, has_encoder = table["name"], table["architecture"]["encoder"] is not None
        for objective in OBJECTIVES:
            found[f"{preset} {objective}"] = numbers_of_run(home, preset, objective, has_encoder)
            print(f"{preset} {objective}: {found[f'{preset} {objective}']}", file=sys.stderr)
    for design in DESIGNS:
        found[design] = numbers_of_study(home, design)
        print(f"{design}: {found[design]}", file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--compare", type=Path, metavar="FILE")
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as home:
        found = numbers_of_all(Path(home))
    if wanted.write:
        wanted.write.write_text(json.dumps(found, indent=1))
    if wanted.compare:
        before = json.loads(wanted.compare.read_text())
        other = [
            name for name in before.keys() | found.keys() if before.get(name) != found.get(name)
        ]
        print(
            f"{len(before) - len(other)} of {len(before)} are the same; others:"
            f" {', '.join(sorted(other)) or 'none'}"
        )
        return 1 if other else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
