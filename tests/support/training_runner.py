"""Runs to be killed: a process that is told, a line an attempt, OBJECTIVE, HOME and the folder
there in which to train, with tabs between them. OBJECTIVE may be an optimizer, of a causal model.
The objective `chain` is a run of three stages, `preference` one that ends with a stage of
preferences, and `labels` one of two that ends with a head on the texts of HOME/texts.jsonl.

Each attempt is a process of its own, forked before anything was computed, so that fifty do not
import torch fifty times. Its number is said as it begins, its exit status when it has ended.
"""

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path

import torch
from chain_run import chain_spec, chain_texts
from conversation_run import long_preference_run
from labelled_texts import labels_run

from paribus.record.environment import current_environment
from paribus.spec.run import RunSpec, load_run
from paribus.train.chain import train_chain
from paribus.train.parent import Texts
from paribus.workspace import Workspace

N_STEPS, CHECKPOINT_EVERY = 80, 4


def run_spec(objective: str, optimizer: str = "adamw") -> RunSpec:
    return load_run(
        {
            "architecture": {
                "preset": "gpt2",
                "n_layers": 2,
                "d_model": 16,
                "dropout": 0.1,
                "attention": {"n_heads": 2},
            },
            "corpus": {
                "sources": [{"kind": "copy", "form": "text", "n_documents": 2000, "max_length": 24}]
            },
            "objective": objective,
            "training": {
                "n_steps": N_STEPS,
                "n_sequences": 6,
                "n_micro_batches": 2,
                "length": 48,
                "row_every": 3,
                "valid_every": 15,
                "valid_batches": 1,
                "checkpoint_every": CHECKPOINT_EVERY,
                "warmup": 5,
                "optimizer": optimizer,
            },
        }
    )


def attempt_run(spec: RunSpec, texts: Texts, root: Path) -> int:
    try:
        train_chain(spec, texts, Workspace(root, device="cpu"), name="run")
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def objective_run(objective: str, home: Path) -> RunSpec:
    match objective:
        case "chain":
            return chain_spec()
        case "preference":
            return long_preference_run()
        case "labels":
            return labels_run(home / "texts.jsonl", {"architecture.dropout": 0.1})
        case "adafactor" | "muon":
            return run_spec("causal", objective)
        case _:
            return run_spec(objective)


def main() -> None:
    torch.set_num_threads(1)
    import_module("torch._dynamo")  # or the optimizer would, at the first step of every attempt
    current_environment(1, "cpu")  # which remembers the hash of the code
    prepared: dict[tuple[str, str], tuple[RunSpec, Texts]] = {}
    while line := sys.stdin.readline():
        objective, home, folder = line.rstrip("\n").split("\t")
        if (objective, home) not in prepared:
            spec = objective_run(objective, Path(home))
            prepared[objective, home] = spec, chain_texts(spec, Path(home) / "cache")
        process = os.fork()
        if process == 0:
            os._exit(attempt_run(*prepared[objective, home], Path(home) / folder))
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
