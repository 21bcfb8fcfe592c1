"""No leak: a logit's gradient with respect to a token it may not see is exactly zero, and not
zero where it may.
"""

from typing import Any

import pytest
import torch
from cross_forms import CROSS_FORMS
from tiny_model import PRESETS, tiny_architecture, tiny_batch

from paribus.batch import Batch
from paribus.masks import SequenceLayout, reachability
from paribus.model import Forward, build
from paribus.model.kernels import KernelChoice
from paribus.spec import resolve

LENGTH, PREFIX = 11, 4
FORMS = list(CROSS_FORMS.values())


def influence(
    preset: str, changes: dict[str, Any] | None, kernel: KernelChoice
) -> tuple[torch.Tensor, torch.Tensor]:
    """How much each input row moves each output row, [output, input], and who may reach whom."""
    spec = tiny_architecture(preset, changes)
    model = build(spec, kernel=kernel).double()
    given = tiny_batch(spec, n_sequences=1, length=LENGTH, prefix=PREFIX)
    embedded = model.embed(given).detach()
    source = None
    if model.encoder is not None and given.source is not None:
        blocks = model.stack.layers if model.spec.shared else model.encoder.layers
        encoded = model.encoder(
            model.embed(given.source), given.source.layout, blocks, None, Forward()
        )
        source = (encoded.states_BTD.detach(), given.source.layout)

    embedded.requires_grad_()
    states_TD = model.stack(
        embedded, given.layout, model.stack.layers, source, Forward()
    ).states_BTD[0]
    # a sum that hides nothing but by chance
    told_T = states_TD @ torch.rand(states_TD.shape[1], dtype=torch.float64)
    slopes = [
        torch.autograd.grad(told, embedded, retain_graph=True)[0][0].abs().amax(-1)
        for told in told_T
    ]
    reached = reachability(resolve(spec).stack.masks, SequenceLayout(LENGTH, PREFIX))
    return torch.stack(slopes), torch.from_numpy(reached)


@pytest.mark.parametrize("kernel", ["auto", "dense"])
@pytest.mark.parametrize(("preset", "changes"), [*((name, {}) for name in PRESETS), *FORMS])
def test_tokens_out_of_sight_have_a_gradient_of_exactly_zero(
    preset: str, changes: dict[str, Any], kernel: KernelChoice
) -> None:
    moved, reached = influence(preset, changes, kernel)
    assert (moved[~reached] == 0).all()
    assert (moved[reached] > 0).all()


@pytest.mark.parametrize(
    "mask",
    [
        "window(2)",
        "strided(3)",
        "causal & (window(2) | strided(4))",
        "by_head(window(2), reverse)",
        "same_side",
        "causal & same_side",
        "by_head(causal & same_side, window(2))",
    ],
)
def test_new_masks_keep_the_law(mask: str) -> None:
    moved, reached = influence("gpt2", {"mask": mask}, "auto")
    assert (moved[~reached] == 0).all()
    assert (moved[reached] > 0).all()


def test_future_tokens_do_not_change_past_logits() -> None:
    spec = tiny_architecture("gpt2")
    model, given = build(spec), tiny_batch(spec)
    changed = given.tokens_BT.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % spec.n_vocab
    before, after = model(given).logits_BTV, model(Batch.of(changed)).logits_BTV
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.equal(before[:, 6:], after[:, 6:])


@pytest.mark.parametrize("kernel", ["auto", "dense"])
@pytest.mark.parametrize("mask", ["same_side", "causal & same_side"])
@pytest.mark.parametrize("prefix", [PREFIX, torch.tensor([PREFIX, 7])])
def test_input_tokens_change_no_logit_beyond_the_boundary(
    prefix: int | torch.Tensor, mask: str, kernel: KernelChoice
) -> None:
    spec = tiny_architecture("gpt2", {"mask": mask})
    model, tokens = build(spec, kernel=kernel), tiny_batch(spec).tokens_BT
    inside = torch.arange(LENGTH) < torch.as_tensor(prefix).reshape(-1, 1).expand(2, 1)
    changed = torch.where(inside, (tokens + 1) % spec.n_vocab, tokens)
    before, after = (model(Batch.of(text, prefix=prefix)).logits_BTV for text in (tokens, changed))
    assert torch.equal(before[~inside], after[~inside])
    assert (before[inside] != after[inside]).any(-1).all()
    given = Batch.of(tokens, prefix=prefix)
    embedded = model.embed(given).detach().requires_grad_()
    states = model.stack(embedded, given.layout, model.stack.layers, None, Forward()).states_BTD
    (grad_BTD,) = torch.autograd.grad(states[~inside].square().sum(), embedded)
    assert (grad_BTD[inside] == 0).all()
    assert (grad_BTD[~inside] != 0).any(-1).all()


def test_padding_and_other_documents_are_out_of_sight() -> None:
    spec = tiny_architecture("bert", {"mask": "same_document"})
    model, tokens = build(spec), tiny_batch(spec).tokens_BT
    documents = (torch.arange(11) >= 5).long().expand(2, -1)
    real = (torch.arange(11) < 9).expand(2, -1)
    changed = tokens.clone()
    changed[:, 2], changed[:, 10] = (tokens[:, 2] + 1) % 37, (tokens[:, 10] + 1) % 37
    before, after = (
        model(Batch.of(t, documents_BT=documents, real_BT=real)).logits_BTV
        for t in (tokens, changed)
    )
    assert torch.equal(before[:, 5:9], after[:, 5:9])
    assert (before[:, :5] != after[:, :5]).any(-1).all()
