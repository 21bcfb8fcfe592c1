"""Small labelled texts in files, and runs that end with a head on them."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from paribus.corpus import prepare_corpus
from paribus.spec.run import RunSpec, load_run
from paribus.train.chain import prepare_texts
from paribus.train.parent import Texts

ODD_LETTERS, EVEN_LETTERS = "acegikmoqsuwy", "bdfhjlnprtvxz"
ARCHITECTURE: dict[str, Any] = {
    "preset": "gpt2",
    "positions": "rotary",
    "n_layers": 2,
    "d_model": 32,
    "attention": {"n_heads": 2},
}
TRAINING: dict[str, Any] = {
    "n_steps": 12,
    "n_sequences": 8,
    "length": 24,
    "row_every": 3,
    "valid_every": 6,
    "valid_batches": 1,
    "checkpoint_every": 4,
}


def write_labelled(path: Path, n_texts: int = 300) -> Path:
    """Texts of one half of the alphabet or of the other; the label says which."""
    draws = np.random.default_rng(7)
    lines = []
    for _ in range(n_texts):
        label = "odd" if draws.random() < 0.7 else "even"
        letters = list(ODD_LETTERS if label == "odd" else EVEN_LETTERS)
        text = "".join(draws.choice(letters, int(draws.integers(5, 20))))
        other = str(draws.choice(["x", "y"]))
        lines.append(json.dumps({"text": text, "label": label, "other": other}))
    path.write_text("\n".join(lines) + "\n")
    return path


def write_tagged(path: Path, n_sentences: int = 200) -> Path:
    """Words of one half of the alphabet or of the other, a tag for each."""
    draws = np.random.default_rng(11)
    lines = ["-DOCSTART- O", ""]
    for _ in range(n_sentences):
        for _ in range(int(draws.integers(1, 4))):
            tag = str(draws.choice(["E", "O"]))
            letters = list(ODD_LETTERS if tag == "O" else EVEN_LETTERS)
            lines.append(f"{''.join(draws.choice(letters, int(draws.integers(1, 5))))} {tag}")
        lines.append("")
    path.write_text("\n".join(lines))
    return path


def labels_table(path: Path) -> dict[str, Any]:
    """A run of two stages: it reads a little text, then learns labels."""
    return {
        "architecture": ARCHITECTURE,
        "training": TRAINING,
        "corpus": {"sources": [{"kind": "copy", "form": "text", "n_documents": 200}]},
        "stages": {
            "0": {"kind": "pretrain"},
            "1": {
                "kind": "tune",
                "corpus": {
                    "sources": [{"kind": "labelled", "paths": str(path)}],
                    "valid": 0.15,
                    "test": 0.15,
                },
                "objective": {"kind": "labels", "n_labels": 2},
            },
        },
    }


def labels_run(path: Path, changes: dict[str, Any] | None = None) -> RunSpec:
    """That run, with changes by path."""
    return load_run(labels_table(path), changes)


def tags_run(path: Path, changes: dict[str, Any] | None = None) -> RunSpec:
    """A run of two stages: it reads a little text, then learns tags."""
    tags = {
        "stages.1.corpus.sources": [{"kind": "tagged", "paths": str(path)}],
        "stages.1.objective": {"kind": "tags", "n_labels": 2},
    }
    return labels_run(path, {**tags, **(changes or {})})


def run_texts(run: RunSpec, cache: Path) -> Texts:
    return prepare_texts(run, partial(prepare_corpus, cache=cache, show_progress=False))
