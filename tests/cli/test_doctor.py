"""The doctor looks at the machine and holds every kernel against dense attention."""

import json
from dataclasses import replace

import pytest
import torch

import paribus as pb
from paribus.cli.checkup import kernels
from paribus.errors import SpecError, UnsupportedError
from paribus.spec import presets

TINY = ("--set", "n_layers=2", "--set", "d_model=24", "--set", "n_heads=2", "--set", "n_vocab=7")


def test_every_mask_of_every_preset_gets_a_kernel_that_agrees(ask):
    answer = ask("doctor", "--json")
    assert answer.status == 0
    found = json.loads(answer.out)
    assert found["healthy"]
    assert {name for one in found["kernels"] for name in one["used_by"]} == set(presets())
    masks = {(one["mask"], one["biased"]): one for one in found["kernels"]}
    assert masks["causal", False]["kernel"] in ("fused", "flex")
    assert masks["full", True]["kernel"] == "masked"
    assert all(one["gradient_error"] < 1e-2 for one in found["kernels"])


def test_the_page_names_machine_and_versions(ask):
    out = ask("doctor", "gpt2").out
    assert f"torch {torch.__version__}" in out
    for part in ("processor", "memory", "bfloat16", "float32", "free at", "✓  causal"):
        assert part in out


@pytest.mark.parametrize("kernel", ["dense", "masked"])
def test_a_kernel_can_be_forced(kernel):
    found = pb.doctor(pb.load("hybrid", mask="by_head(same_document & causal, strided(3))"), kernel)
    assert {one.kernel for one in found.kernels} == {kernel}
    assert found.healthy


def test_a_forced_kernel_that_cannot_do_the_mask_is_refused(ask):
    answer = ask("doctor", "gpt2", *TINY, "--set", "mask=window(4)", "--kernel", "fused")
    assert answer.status == 1
    assert answer.out == ""
    assert answer.err.startswith("error: kernel 'fused' does not support the mask window(4)")
    with pytest.raises(UnsupportedError, match="it adds no bias to the scores"):
        pb.doctor("t5", "fused")


def test_an_unknown_kernel_is_a_mistake_in_what_was_asked(ask):
    answer = ask("doctor", "gpt2", "--kernel", "flash")
    assert answer.status == 2
    assert "kernel is 'flash'; use one of auto, dense, masked, fused, flex" in answer.err
    with pytest.raises(SpecError, match="kernel is 'flash'"):
        pb.doctor("gpt2", "flash")


def test_a_kernel_that_disagrees_is_marked_and_fails(ask, monkeypatch):
    honest = kernels.attend

    def wrong(query, key, value, mask, change, kernel):
        if kernel != "dense":
            change = change._replace(scale=2 * change.scale)
        return honest(query, key, value, mask, change, kernel)

    monkeypatch.setattr(kernels, "attend", wrong)
    answer = ask("doctor", "gpt2")
    assert answer.status == 1
    assert "✗  causal" in answer.out


@pytest.mark.parametrize(
    ("speed", "words"), [(0.25, "4 × slower than float32"), (2.0, "2 × as fast as float32")]
)
def test_slow_bfloat16_is_said_in_words(ask, monkeypatch, speed, words):
    found = pb.doctor("gpt2").machine
    monkeypatch.setattr(
        "paribus.cli.doctor.inspect_machine", lambda folder: replace(found, bf16_speed=speed)
    )
    assert words in ask("doctor", "gpt2").out
