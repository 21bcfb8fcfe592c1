"""Little runs that were really trained, with several checkpoints, to look into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import paribus as pb
from paribus.corpus import TokenisedCorpus, prepare_corpus
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.probe.run import probe_model, probe_texts
from paribus.probe.subject import ProbedModel
from paribus.record.probe_rows import ProbeRow
from paribus.spec.corpus import Corpus
from paribus.spec.probes import Probe
from paribus.watcher import Watcher
from paribus.workspace import Workspace

LENGTH = 32
CORPUS: dict[str, Any] = {
    "sources": [{"kind": "translation", "n_documents": 400, "form": "text", "max_length": 12}],
    "test": 0.2,
}


@dataclass(frozen=True)
class ProbedRun:
    """A run and its held-out text."""

    subject: ProbedModel
    corpus: TokenisedCorpus

    def rows(self, probe: Probe, watcher: Watcher | None = None) -> list[ProbeRow]:
        texts = probe_texts(self.subject, self.corpus, probe)
        return list(probe_model(self.subject, texts, probe, watcher or Watcher()))


def train_probed_run(
    folder: Path,
    architecture: Mapping[str, Any],
    objective: str | Mapping[str, Any] = "causal",
    **training: Any,
) -> ProbedRun:
    """A run of 12 steps that keeps a checkpoint every 4 of them."""
    sizes = {"n_layers": 2, "d_model": 16, "max_length": LENGTH, "attention": {"n_heads": 2}}
    table = {
        "architecture": {**sizes, **architecture},
        "corpus": CORPUS,
        "objective": objective,
        "training": {
            "n_steps": 12,
            "n_sequences": 4,
            "length": LENGTH,
            "warmup": 1,
            "checkpoint_every": 4,
            "keep_last": 3,
            **training,
        },
    }
    workspace = Workspace(folder / "runs", folder / "cache", "cpu")
    pb.train_run(table, name="probed", workspace=workspace)
    checkpoint = load_checkpoint(folder / "runs" / "probed")
    spec = Corpus.model_validate(CORPUS)
    corpus = prepare_corpus(spec, workspace.cache_folder, show_progress=False, n_workers=1)
    return ProbedRun(ProbedModel.of(checkpoint, torch.device("cpu")), corpus)
