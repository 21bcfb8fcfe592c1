"""The blocks that FlexAttention is told to compute, against those that torch itself would find."""

from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from paribus.batch import BatchLayout
from paribus.masks import parse_rule
from paribus.model.kernels.attention_mask import AttentionMask
from paribus.model.kernels.flex import _head_count, _mask_mod, block_mask

CPU = torch.device("cpu")
N_HEADS = 4
COMPILER_CONFIG: Any = torch.compiler.config  # its stubs lack what it has
TABLES = (
    "kv_num_blocks",
    "kv_indices",
    "full_kv_num_blocks",
    "full_kv_indices",
    "q_num_blocks",
    "q_indices",
    "full_q_num_blocks",
    "full_q_indices",
)


def padded(length: int, n_real: list[int]) -> BatchLayout:
    """Sequences that end early, the first half of each its prefix."""
    real_BT = torch.arange(length) < torch.tensor(n_real)[:, None]
    return BatchLayout(len(n_real), length, prefix=torch.tensor(n_real) // 2, real_BT=real_BT)


def packed(length: int, cut: int) -> BatchLayout:
    """Two documents in the first sequence, one in the second."""
    documents_BT = torch.stack(
        [torch.arange(length) >= cut, torch.zeros(length, dtype=torch.bool)]
    ).long()
    return BatchLayout(2, length, documents_BT=documents_BT)


@pytest.mark.parametrize(
    ("rule", "layout"),
    [
        ("causal", padded(96, [96, 40, 1])),
        ("full", padded(300, [300, 130])),
        ("prefix", padded(300, [300, 290, 129])),
        ("causal & same_side", padded(512, [512, 200])),
        ("by_head(causal, reverse)", padded(300, [300, 200])),
        ("causal & same_document", packed(512, 256)),
        ("window(40) & same_document", packed(700, 301)),
    ],
)
def test_the_blocks_are_those_torch_finds(rule: str, layout: BatchLayout) -> None:
    view = AttentionMask.of(parse_rule(rule), layout, layout, N_HEADS, CPU)
    ours = block_mask(view)
    theirs = create_block_mask(
        _mask_mod(view), layout.n_sequences, _head_count(view), layout.length, layout.length, CPU
    )
    assert ours.seq_lengths == theirs.seq_lengths
    assert ours.BLOCK_SIZE == theirs.BLOCK_SIZE
    for name in TABLES:
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name


def test_the_compiler_is_told_the_shapes_it_gets() -> None:
    layout = padded(300, [300, 130])
    view = AttentionMask.of(parse_rule("by_head(causal, prefix)"), layout, layout, N_HEADS, CPU)

    def tables(of: AttentionMask) -> list[torch.Tensor]:
        return [getattr(block_mask(of), name) for name in TABLES]

    compiled = torch.compile(tables, backend="aot_eager", fullgraph=True)
    for found, expected in zip(compiled(view), tables(view), strict=True):
        assert found.shape == expected.shape
        assert torch.equal(found, expected)


@pytest.mark.parametrize("rule", ["prefix", "causal & same_side", "by_head(causal, prefix)"])
def test_compiled_blocks_serve_every_split(rule: str) -> None:
    n_forms = 0

    def tables(layout: BatchLayout) -> list[torch.Tensor]:
        view = AttentionMask.of(parsed, layout, layout, N_HEADS, CPU)
        return [getattr(block_mask(view), name) for name in TABLES]

    def backend(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        nonlocal n_forms
        n_forms += 1
        return graph

    parsed, compiled = parse_rule(rule), torch.compile(tables, backend=backend, fullgraph=True)
    for split in (64, 130, 300, 390):
        layout = BatchLayout(n_sequences=2, length=400, prefix=split)
        with COMPILER_CONFIG.patch(dynamic_sources="L['layout'].prefix"):
            found = compiled(layout)
        for table, expected in zip(found, tables(layout), strict=True):
            assert torch.equal(table, expected.expand_as(table))
    assert n_forms == 1
