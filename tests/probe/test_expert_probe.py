"""The probe of experts with a router that was planted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from byte_models import byte_model
from probed_models import found_values, probed, random_texts, without_attention
from probed_runs import train_probed_run

from paribus.batch import Batch
from paribus.errors import UnsupportedError
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.model.experts import RoutedExperts
from paribus.probe.expert_counts import saturation
from paribus.probe.expert_probe import probe_experts
from paribus.probe.look import look_at
from paribus.probe.run import probe_texts
from paribus.probe.texts import ProbeText, ProbeTexts
from paribus.record.file_names import checkpoint_name
from paribus.record.probe_rows import ProbeRow
from paribus.spec.probes import ExpertsProbe
from paribus.watcher import Watcher

T = 24


def expert_rows(tmp_path: Path) -> list[ProbeRow]:
    """Of a router as it was drawn, on texts of two domains."""
    model = byte_model("mixtral", max_length=T)
    subject = probed(model, tmp_path)
    texts = (*random_texts(4, T, "even").texts, *random_texts(4, T, "odd", seed=1).texts)
    return list(probe_experts(subject, ProbeTexts(texts), ExpertsProbe(), Watcher()))


def test_loads_and_shares_add_up(tmp_path: Path) -> None:
    rows = expert_rows(tmp_path)
    spec = byte_model("mixtral", max_length=T).spec
    layers = {row.layer for row in rows}
    assert layers == set(range(len(spec.stack.layers)))
    router = byte_model("mixtral", max_length=T).stack.layers[0].feed_forward
    assert isinstance(router, RoutedExperts)
    n_experts, n_active = router.spec.n_experts, router.spec.n_active
    for layer in layers:
        own = [row for row in rows if row.layer == layer]
        loads = [row.value for row in own if row.quantity == "load"]
        assert sum(loads) == pytest.approx(n_experts)
        whole = [row.value for row in own if row.quantity == "MaxVio over the whole text"]
        assert whole == pytest.approx([max(loads) - 1])
        for domain in ("even", "odd"):
            shares = [
                row.value
                for row in own
                if row.quantity == "share of tokens" and row.variant == domain
            ]
            assert sum(shares) == pytest.approx(n_active)


def test_a_planted_router_is_found(tmp_path: Path) -> None:
    """All tokens go to the same experts: loads are extreme, and every expert stays."""
    model = byte_model("mixtral", max_length=T)
    for block in model.stack.layers:
        router = block.feed_forward.router
        with torch.no_grad():
            router.weight.zero_()
    rows = list(
        probe_experts(probed(model, tmp_path), random_texts(4, T), ExpertsProbe(), Watcher())
    )
    n_experts, n_active = router.spec.n_experts, router.spec.n_active
    stays = [row.value for row in rows if row.quantity == "first expert stays"]
    assert set(stays) == {1.0}
    violations = [row.value for row in rows if row.quantity == "MaxVio over the whole text"]
    assert violations == pytest.approx([n_experts / n_active - 1] * len(violations))


def test_a_router_that_was_planted_by_letter_is_found_by_domain_and_by_token(
    tmp_path: Path,
) -> None:
    """Letters of one domain go to the first experts, those of the other to the last."""
    model = without_attention(byte_model("mixtral", max_length=T, changes={"n_layers": 1}))
    (block,) = model.stack.layers
    router, letters = block.feed_forward.router, {"first": "abcd", "last": "wxyz"}
    n_experts, n_active = router.spec.n_experts, router.spec.n_active
    wanted = {"first": range(n_active), "last": range(n_experts - n_active, n_experts)}
    targets_MN = torch.zeros(8, n_experts)
    for number, domain in enumerate(letters):
        targets_MN[4 * number : 4 * number + 4, list(wanted[domain])] = 50.0
    tokens_M = torch.tensor([ord(letter) for letter in "".join(letters.values())])
    with torch.no_grad():
        states_MD = block.feed_forward_norm(model.embedding.weight[tokens_M])
        router.weight.copy_((torch.linalg.pinv(states_MD) @ targets_MN).T)
    texts = []
    for domain, own in letters.items():
        for number in range(3):
            text = (own * T)[number : number + T]
            texts.append(ProbeText(f"{domain} {number}", domain, tuple(text.encode())))
    subject = probed(model, tmp_path)
    rows = list(probe_experts(subject, ProbeTexts(tuple(texts)), ExpertsProbe(), Watcher()))
    for domain, experts in wanted.items():
        shares = found_values(rows, "share of tokens", variant=domain)
        assert shares == [float(expert in experts) for expert in range(n_experts)]
    for row in rows:
        if row.quantity == "share of a token's occurrences":
            domain = "first" if row.variant.strip("'") in letters["first"] else "last"
            assert row.value == float(row.x in wanted[domain])


def test_a_model_without_experts_is_refused(tmp_path: Path) -> None:
    subject = probed(byte_model("gpt2", max_length=T), tmp_path)
    with pytest.raises(UnsupportedError, match="looks at routers, but this architecture has none"):
        list(probe_experts(subject, random_texts(2, T), ExpertsProbe(), Watcher()))


def test_saturation_between_checkpoints_is_that_of_their_choices(tmp_path: Path) -> None:
    architecture = {
        "preset": "mixtral",
        "attention": {"n_heads": 2, "n_kv_heads": 1},
        "feed_forward": {"d_expert": 16},
    }
    run = train_probed_run(tmp_path, architecture, n_steps=3, checkpoint_every=1)
    done: list[int] = []

    class Steps(Watcher):
        def advance(self, amount: int) -> None:
            done.append(amount)

    spec = ExpertsProbe(n_texts=4, length=24)
    rows = run.rows(spec, Steps())
    assert sum(done) == 3 * 4  # texts, by each checkpoint
    found = [row for row in rows if row.quantity == "saturation"]
    assert [row.x for row in found if row.layer == 0] == [1, 2]
    tokens_BT = probe_texts(run.subject, run.corpus, spec).tokens_BT
    place = "stack.expert_choice.1"
    choices = []
    for step in (0, 2):
        folder = run.subject.checkpoint.folder.with_name(checkpoint_name(step))
        model = load_checkpoint(folder).restore().eval()
        choices.append(torch.from_numpy(look_at(model, Batch.of(tokens_BT), [place])[place]))
    own = [row.value for row in found if row.layer == 1 and row.x == 1]
    assert own == pytest.approx([saturation(*choices)])


def test_a_checkpoint_without_others_has_no_saturation(tmp_path: Path) -> None:
    rows = expert_rows(tmp_path)
    assert not [row for row in rows if row.quantity.startswith("saturation")]
