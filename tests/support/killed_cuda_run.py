"""A run on CUDA that kills itself: `python killed_cuda_run.py HOME PRESET STEP`, or never where
STEP is -1.
"""

import os
import signal
import sys
from pathlib import Path

from paribus.corpus import prepare_corpus
from paribus.spec.run import RunSpec, load_run
from paribus.train.loop import train
from paribus.watcher import Watcher
from paribus.workspace import Workspace

OBJECTIVES = {"unilm": {"kind": "prefix", "grid": 4}}


def run_spec(preset: str) -> RunSpec:
    return load_run(
        {
            "architecture": {
                "preset": preset,
                "n_layers": 2,
                "d_model": 64,
                "dropout": 0.1,
                "attention": {"n_heads": 4},
                "feed_forward": {"d_ff": 128},
            },
            "corpus": {
                "sources": [{"kind": "copy", "form": "text", "n_documents": 2000, "max_length": 24}]
            },
            "objective": OBJECTIVES.get(preset, "causal"),
            "training": {
                "n_steps": 40,
                "n_sequences": 16,
                "length": 96,
                "row_every": 5,
                "valid_every": 20,
                "valid_batches": 1,
                "checkpoint_every": 10,
                "warmup": 5,
            },
        }
    )


def main(home: Path, preset: str, at: int) -> None:
    class Killer(Watcher):
        def step(self, step: int) -> None:
            if step == at:
                os.kill(os.getpid(), signal.SIGKILL)

    spec = run_spec(preset)
    text = prepare_corpus(spec.stages[0].corpus, home / "cache", False)
    train(spec, text, Workspace(home, device="cuda"), name="run", watcher=Killer())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
