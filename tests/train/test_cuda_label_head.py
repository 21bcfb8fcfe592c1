"""Fine-tuning with a head on CUDA: compiled, replayed from graphs, and the same twice."""

from pathlib import Path

import numpy as np
import pytest
import torch
from labelled_texts import labels_run, run_texts, tags_run, write_labelled, write_tagged

from paribus.model import build
from paribus.model.label_head import build_label_head
from paribus.spec import resolve
from paribus.spec.run import RunSpec
from paribus.train.learner import Learner
from paribus.train.loader import ProblemLoader
from paribus.train.parent import Texts

pytestmark = pytest.mark.gpu
T5 = {
    "preset": "t5",
    "n_layers": 2,
    "d_model": 32,
    "encoder": {"n_layers": 2},
    "attention": {"n_heads": 2},
}
CASES = {
    "causal": {},
    "full": {"stages.1.architecture.mask": "full"},
    "max": {"stages.1.objective.pooling": "max"},
    "last": {"stages.1.objective.pooling": "last"},
    "encoder-decoder": {"architecture": T5, "stages.0.objective": "spans"},
    "tags": {},
}


def losses(run: RunSpec, texts: Texts, device: torch.device) -> list[float]:
    spec = resolve(run.last_architecture)
    loader = ProblemLoader(
        dataset=texts[-1],
        stage=run.last,
        has_encoder=spec.encoder is not None,
        separates_documents=False,
        pin_memory=device.type == "cuda",
    )
    assert loader.labelled is not None
    model = build(run.last_architecture, seed=3, device=device)
    head = build_label_head(loader.labelled.names, model.spec, 3, device)
    learner = Learner(model, run.last.training, texts[-1].vocabulary, head=head)
    nats = []
    for step in range(12):
        sums = learner.step(step, loader.problems_at(step))
        nats.append(sums.nats_sum.item() / sums.target_count.item())
    if device.type == "cuda":
        assert learner.graph_runner.graphs  # it was replayed
    return nats


@pytest.mark.parametrize("case", CASES)
def test_a_head_learns_on_cuda_as_on_a_cpu_and_the_same_twice(tmp_path: Path, case: str) -> None:
    training = {"stages.1.training.optimizer.rate": 3e-3}
    if case == "tags":
        run = tags_run(write_tagged(tmp_path / "words.conll"), training)
    else:
        run = labels_run(write_labelled(tmp_path / "texts.jsonl"), {**training, **CASES[case]})
    texts = run_texts(run, tmp_path / "cache")
    own = losses(run, texts, torch.device("cuda"))
    assert own == losses(run, texts, torch.device("cuda"))
    on_cpu = losses(run, texts, torch.device("cpu"))
    np.testing.assert_allclose(own, on_cpu, atol=0.05)  # bf16
