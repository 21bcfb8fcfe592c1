"""Nothing is dropped: changing any field changes what the model does, or is refused.

The test walks the schema. A field without a probe fails, so a new one cannot be added and
forgotten.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from field_probes import (
    PROBES,
    models,
)
from pydantic import BaseModel
from tiny_model import random_tokens, tiny_architecture, tiny_batch

from paribus.batch import Batch
from paribus.errors import ParibusError
from paribus.model import DropoutKey, balance_loss, build, updated_selection_bias
from paribus.spec import Architecture, Experts

# What leaves numbers alone on its own, and why that is obedience: it shows in the parameters
# instead.
IN_PARAMETERS = {
    "head.bias",
    "feed_forward[dense].bias",
    "attention[multi_head].bias",
    "norm[layer].bias",
}


def fields(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = models(field.annotation)
        for kind in inner:
            tag = f"[{kind.model_fields['kind'].default}]" if "kind" in kind.model_fields else ""
            yield from fields(kind, f"{path}{name}{tag}.")
        if not inner:
            yield path + name


def in_two_documents(batch: Batch) -> Batch:
    """A batch whose text and source both have two documents."""
    documents = (torch.arange(batch.layout.length) >= 4).long().expand_as(batch.tokens_BT)
    source = None if batch.source is None else in_two_documents(batch.source)
    return replace(batch, layout=replace(batch.layout, documents_BT=documents), source=source)


def observed(spec: Architecture) -> dict[str, Any]:
    """Everything a run could notice: logits, parameters, balance loss, moved bias, the longest
    text it reads.
    """
    model, batch = build(spec), tiny_batch(spec)
    if model.spec.asks_for_documents:
        batch = in_two_documents(batch)
    out = model(batch, DropoutKey(seed=1, step=2))
    seen: dict[str, Any] = {
        "logits": out.logits_BTV,
        "parameters": {n: p.shape for n, p in model.named_parameters()},
    }
    if isinstance(spec.feed_forward, Experts):
        loss = balance_loss(list(out.loads.values()), spec.feed_forward)
        seen["balance"] = 0.0 if loss is None else loss.item()
        rate = spec.feed_forward.router.bias_rate
        counts = [load.choices_BN.sum(0) for load in out.loads.values()]
        seen["bias"] = (
            None
            if rate is None
            else [updated_selection_bias(torch.zeros_like(n), n, rate).tolist() for n in counts]
        )
    source = None if spec.encoder is None else random_tokens(1, 3)
    try:
        model(Batch.of(random_tokens(1, 30), source=source))
        seen["reads 30"] = True
    except ParibusError:
        seen["reads 30"] = False
    return seen


def differs(left: dict[str, Any], right: dict[str, Any]) -> set[str]:
    def same(a: Any, b: Any) -> bool:
        return a.shape == b.shape and torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b

    return {
        name for name in left.keys() | right.keys() if not same(left.get(name), right.get(name))
    }


def test_every_field_of_the_schema_has_a_probe() -> None:
    assert set(fields(Architecture)) == PROBES.keys()


@pytest.mark.parametrize("field", PROBES)
def test_changing_a_field_changes_what_the_model_does(field: str) -> None:
    preset, both, one = PROBES[field]
    changed = differs(
        observed(tiny_architecture(preset, both)), observed(tiny_architecture(preset, both | one))
    )
    training_only = field.startswith("feed_forward[experts].balance") or field.endswith("bias_rate")
    if training_only:
        assert changed & {"balance", "bias"}
    elif field in IN_PARAMETERS:
        assert "parameters" in changed
    elif field == "init[mup].d_head_base":
        assert not changed  # queries start at zero, and so do scores
    elif field == "max_length":
        assert changed == {"reads 30"}
    else:
        assert "logits" in changed


def test_gains_of_queries_and_keys_are_learned_or_fixed() -> None:
    learned, fixed, none = (
        observed(tiny_architecture("gpt2", {"attention.qk_norm": value}))
        for value in (True, "fixed", False)
    )
    assert differs(learned, fixed) == {"parameters"}
    assert differs(none, fixed) == {"logits"}


def test_the_base_of_heads_matters_as_soon_as_queries_move_from_zero() -> None:
    logits = []
    for d_head in (8, 32):
        spec = tiny_architecture("gpt2", {"init": {"kind": "mup", "d_head_base": d_head}})
        model = build(spec)
        query = model.get_parameter("stack.layers.0.attention.query.weight")
        assert not query.any()
        with torch.no_grad():
            query += model.get_parameter("stack.layers.0.attention.key.weight")
        logits.append(model(tiny_batch(spec)).logits_BTV)
    assert not torch.equal(*logits)


def test_a_bias_matters_as_soon_as_it_moves_from_zero() -> None:
    for preset, path in (("gpt2", "stack.layers.0.feed_forward.up.bias"), ("bert", "head.bias")):
        spec = tiny_architecture(preset)
        model = build(spec)
        before = model(tiny_batch(spec)).logits_BTV
        with torch.no_grad():
            model.get_parameter(path)[3] += 1.0
        assert not torch.equal(before, model(tiny_batch(spec)).logits_BTV)
