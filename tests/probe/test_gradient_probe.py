"""The probe of gradients: norms against the whole gradient, curvature against differences."""

from __future__ import annotations

from pathlib import Path

import pytest
from byte_models import byte_model
from probed_models import found_values, probed, random_texts
from probed_runs import ProbedRun, train_probed_run

from paribus.errors import SpecError, UnsupportedError
from paribus.interop.recorded_objective import write_objective
from paribus.objectives import score
from paribus.probe.gradient_probe import UNTRAINED, n_derivatives, probe_gradients
from paribus.probe.posed_texts import posed_texts
from paribus.probe.run import probe_texts
from paribus.spec.probes import GradientsProbe
from paribus.spec.run import load_objective
from paribus.watcher import Watcher

T = 24
SPEC = GradientsProbe(n_texts=3, start=False)
ALONG, CHECK = "curvature along the gradient", "curvature along the gradient, by differences"


@pytest.mark.parametrize("preset", ["gpt2", "llama", "unilm", "bart"])
def test_two_derivatives_agree_with_differences(preset: str, tmp_path: Path) -> None:
    """Presets of smooth activations; the scale of an RMS norm is no constant."""
    subject = probed(byte_model(preset, max_length=T), tmp_path)
    rows = list(probe_gradients(subject, random_texts(3, T), SPEC, Watcher()))
    assert found_values(rows, ALONG) == pytest.approx(found_values(rows, CHECK), rel=2e-2)
    assert found_values(rows, ALONG) != [0.0]


@pytest.mark.parametrize("preset", ["gpt2", "unilm", "bart", "bert"])
def test_norms_are_those_of_the_gradient_of_the_objective(preset: str, tmp_path: Path) -> None:
    """Held against one backward pass over all texts, which have equally many targets."""
    subject = probed(byte_model(preset, max_length=T), tmp_path)
    objective, texts = subject.checkpoint.objective(), random_texts(1, T)
    spec = GradientsProbe(n_texts=1, start=False, curvature=False)
    rows = list(probe_gradients(subject, texts, spec, Watcher()))
    problem = posed_texts(subject, texts, objective, seed=0)
    states = subject.model.hidden_states(problem.inputs).states_BTD
    logits = subject.model.logits(problem.gather_states(states))
    found = score(logits, problem, subject.layout.vocabulary)
    (found.nats_sum / found.target_count).backward()
    squares: dict[tuple[str, int], float] = {}
    whole = 0.0
    for name, parameter in subject.model.named_parameters():
        assert parameter.grad is not None, name
        square = parameter.grad.double().square().sum().item()
        whole += square
        if ".layers." in name:
            stack, _, layer = name.split(".")[:3]
            squares[stack, int(layer)] = squares.get((stack, int(layer)), 0.0) + square
    for (stack, layer), square in squares.items():
        own = found_values(rows, "gradient norm", stack=stack, layer=layer)
        assert own == pytest.approx([square**0.5], rel=1e-4)
    assert found_values(rows, "gradient norm per target") == pytest.approx([whole**0.5], rel=1e-4)
    n_targets, n_tokens = found.target_count.item(), problem.inputs.n_tokens
    assert found_values(rows, "targets per text") == [n_targets]
    assert found_values(rows, "gradient norm per token") == pytest.approx(
        [whole**0.5 * n_targets / n_tokens], rel=1e-4
    )


def test_equal_texts_have_the_gradient_of_one(tmp_path: Path) -> None:
    subject = probed(byte_model("gpt2", max_length=T), tmp_path)
    spec = GradientsProbe(n_texts=1, start=False, curvature=False)
    rows = list(probe_gradients(subject, random_texts(1, T), spec, Watcher()))
    one = found_values(rows, "gradient norm of one text")
    assert one == pytest.approx(found_values(rows, "gradient norm per target"))
    many = list(probe_gradients(subject, random_texts(5, T), spec, Watcher()))
    assert found_values(many, "gradient norm per target") < found_values(
        many, "gradient norm of one text"
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ProbedRun:
    return train_probed_run(tmp_path_factory.mktemp("run"), {"preset": "gpt2"})


def test_a_run_is_looked_at_at_its_start_and_at_every_kept_checkpoint(run: ProbedRun) -> None:
    done: list[int] = []

    class Steps(Watcher):
        def advance(self, amount: int) -> None:
            done.append(amount)

    spec = GradientsProbe(n_texts=2, length=24)
    rows = run.rows(spec, Steps())
    assert {row.variant for row in rows} == {"", UNTRAINED, "step 4", "step 8"}
    norms = [
        found_values(rows, "gradient norm per target", variant=one)[0] for one in ("", UNTRAINED)
    ]
    assert norms[0] != norms[1]
    last = "curvature along the last update"
    assert found_values(rows, last) == pytest.approx(
        found_values(rows, f"{last}, by differences"), rel=5e-2, abs=1e-4
    )
    texts = probe_texts(run.subject, run.corpus, spec)
    assert sum(done) == n_derivatives(run.subject, texts, spec)


def test_an_objective_of_pairs_is_refused(tmp_path: Path) -> None:
    subject = probed(byte_model("bart", max_length=T), tmp_path)
    write_objective(subject.checkpoint.folder, load_objective("seq2seq"))
    with pytest.raises(SpecError, match="posed of pairs or of labels, but this probe reads"):
        list(probe_gradients(subject, random_texts(2, T), SPEC, Watcher()))


def test_a_model_that_was_not_trained_here_has_no_start(tmp_path: Path) -> None:
    subject = probed(byte_model("gpt2", max_length=T), tmp_path)
    with pytest.raises(UnsupportedError, match="how it began is not known; set start to false"):
        list(probe_gradients(subject, random_texts(2, T), GradientsProbe(), Watcher()))
    assert not subject.earlier_checkpoints
