"""The probe of descent on runs of classification from examples, and with planted weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probed_models import found_values, without_attention
from probed_runs import ProbedRun, train_probed_run

from paribus.batch import Batch
from paribus.errors import SpecError, UnsupportedError
from paribus.probe.descent_items import EpisodeTexts
from paribus.probe.descent_probe import STEPS, UNTRAINED, n_tunings, probe_descent
from paribus.probe.look import look_at
from paribus.probe.run import probe_texts
from paribus.spec.probes import DescentProbe
from paribus.watcher import Watcher

LANGUAGE = {"kind": "classification", "n_documents": 300, "n_inputs": 2, "min_length": 4}
TEXT = {
    "sources": [{**LANGUAGE, "max_length": 5, "form": "pairs"}],
    "tokenizer": "bytes",
    "test": 0.1,
}
SPEC = DescentProbe(n_texts=20, n_others=2)
TRAINING = {"n_steps": 6, "checkpoint_every": 6}
ARMS: dict[str, dict[str, Any]] = {
    "causal": {"preset": "gpt2"},
    "prefix": {"preset": "gpt2", "mask": "prefix"},
    "encoder-decoder": {"preset": "bart", "n_layers": 1, "encoder": {"n_layers": 1}},
}


@pytest.fixture(scope="module", params=ARMS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ProbedRun:
    folder = tmp_path_factory.mktemp("run")
    return train_probed_run(folder, ARMS[request.param], "seq2seq", TEXT, **TRAINING)


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> ProbedRun:
    folder = tmp_path_factory.mktemp("causal")
    return train_probed_run(folder, ARMS["causal"], "seq2seq", TEXT, **TRAINING)


def episodes(run: ProbedRun) -> EpisodeTexts:
    texts = probe_texts(run.subject, run.corpus, SPEC)
    assert isinstance(texts, EpisodeTexts)
    return texts


def test_every_layer_has_a_row_beside_its_baseline_and_weights_stay(run: ProbedRun) -> None:
    before = {name: value.clone() for name, value in run.subject.model.state_dict().items()}
    done: list[int] = []

    class Steps(Watcher):
        def advance(self, amount: int) -> None:
            done.append(amount)

    rows = run.rows(SPEC, Steps())
    assert sum(done) == n_tunings(episodes(run), SPEC)
    for name, value in run.subject.model.state_dict().items():
        assert torch.equal(value, before[name]), name
    n_layers = len(run.subject.spec.stack.layers)
    has_encoder = run.subject.spec.encoder is not None
    branch = "cross" if has_encoder else "attention"
    for variant in ("", UNTRAINED):
        for quantity in ("SimAOU", "SimAOU, random update", "SimAM", "SimAM, before tuning"):
            values = found_values(rows, quantity, variant=variant, branch=branch)
            assert len(values) == n_layers
            assert all(-1 <= value <= 1 for value in values)
        taus = found_values(rows, "Kendall's tau", variant=variant)
        assert len(taus) == (0 if has_encoder else n_layers)
        assert len(found_values(rows, "accuracy, tuned", variant=variant)) == 1


def test_prompts_hold_the_demonstrations_that_are_tuned_on(run: ProbedRun) -> None:
    texts = episodes(run)
    assert len(texts.texts) == len(texts.items) == 20
    for item in (*texts.items, *texts.others):
        assert item.demonstration_tokens == item.training_tokens
        assert len(item.training) == 5
        assert item.n_query == 3  # two inputs and the sign before a value
        assert item.in_context.target == item.zero_shot.target


def test_the_similarity_is_that_of_a_step_by_hand(causal: ProbedRun) -> None:
    """One layer is computed again with hooks of torch alone, for each query."""
    texts, model = episodes(causal), causal.subject.model
    spec = SPEC.model_copy(update={"start": False})
    rows = list(probe_descent(causal.subject, texts, spec, Watcher()))
    found = found_values(rows, "SimAOU", layer=1)[0]
    candidates = []
    for step in STEPS:
        cosines = [by_hand(model, item, step) for item in texts.items]
        candidates.append(sum(cosines) / len(cosines))
    assert min(abs(one - found) for one in candidates) < 1e-4


def by_hand(model: Any, item: Any, step: float) -> float:
    def output(inputs: tuple[int, ...]) -> torch.Tensor:
        place = "stack.attention_output.1"
        batch = Batch.of(torch.tensor([inputs]), prefix=len(inputs))
        return torch.from_numpy(look_at(model, batch, [place])[place])[0, -1]

    zero_shot, in_context = output(item.zero_shot.inputs), output(item.in_context.inputs)
    tuned = {
        name: value
        for name, value in model.named_parameters()
        if "attention.key.weight" in name or "attention.value.weight" in name
    }
    loss = torch.zeros(())
    for one in item.training:
        tokens = torch.tensor([[*one.inputs, *one.target]])
        logits = model(Batch.of(tokens, prefix=len(one.inputs))).logits_BTV
        loss = loss + F.cross_entropy(logits[0, len(one.inputs) - 1], torch.tensor(one.target[0]))
    gradients = torch.autograd.grad(loss / len(item.training), list(tuned.values()))
    length = torch.cat([one.flatten() for one in gradients]).norm()
    size = torch.cat([one.detach().flatten() for one in tuned.values()]).norm()
    kept = [one.detach().clone() for one in tuned.values()]
    with torch.no_grad():
        for value, gradient in zip(tuned.values(), gradients, strict=True):
            value -= step * size / length * gradient
        after = output(item.zero_shot.inputs)
        for value, old in zip(tuned.values(), kept, strict=True):
            value.copy_(old)
    start = F.normalize(zero_shot, dim=0)
    updates = [F.normalize(one, dim=0) - start for one in (in_context, after)]
    return F.cosine_similarity(updates[0], updates[1], dim=0).item()


def test_weights_without_a_gradient_stay_where_they_are(tmp_path: Path) -> None:
    run = train_probed_run(tmp_path, ARMS["causal"], "seq2seq", TEXT, **TRAINING)
    without_attention(run.subject.model)  # so nothing depends on keys and values
    spec = SPEC.model_copy(update={"start": False})
    rows = list(probe_descent(run.subject, episodes(run), spec, Watcher()))
    assert found_values(rows, "SimAM") == found_values(rows, "SimAM, before tuning")
    assert found_values(rows, "accuracy, tuned") == found_values(rows, "accuracy, zero-shot")
    assert not found_values(rows, "Rec2FTP")  # tuning corrects nothing


def test_few_queries_and_other_text_are_refused(causal: ProbedRun, tmp_path: Path) -> None:
    few = DescentProbe(n_texts=19)
    refusal = r"descent\.n_texts is 19, too few query examples for a mean; use 20 or more"
    with pytest.raises(SpecError, match=refusal):
        probe_texts(causal.subject, causal.corpus, few)
    other = train_probed_run(tmp_path, ARMS["causal"], **TRAINING)
    with pytest.raises(UnsupportedError, match="the corpus has no source 'classification'"):
        probe_texts(other.subject, other.corpus, SPEC)


def test_latent_attention_is_refused(tmp_path: Path) -> None:
    architecture = {
        "preset": "gpt2",
        "positions": "rotary",
        "attention": {
            "kind": "latent",
            "n_heads": 2,
            "d_latent": 8,
            "d_content": 4,
            "d_rotary": 4,
            "d_value": 4,
        },
    }
    run = train_probed_run(tmp_path, architecture, "seq2seq", TEXT, **TRAINING)
    with pytest.raises(UnsupportedError, match="latent attention has none of its own"):
        probe_texts(run.subject, run.corpus, SPEC)
