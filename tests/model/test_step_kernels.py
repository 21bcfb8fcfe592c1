"""A new kind is refused where kinds are told apart, and never computed as another: the kernels of a
step have every activation there is, or leave a model to others.
"""

import ast
from pathlib import Path
from typing import get_args

import pytest
from tiny_model import random_tokens, tiny_architecture

from paribus.batch import Batch
from paribus.corpus.tasks.items import TaskItem, iterate_texts
from paribus.model import build, fused_step
from paribus.model.block import TransformerBlock
from paribus.model.kernels import step
from paribus.model.kernels.step import STEP_ACTIVATIONS
from paribus.spec.architecture import Activation


def activated() -> ast.FunctionDef:
    """The function of the kernels; triton, which reads it, is not needed to read it."""
    source = Path(step.__file__).with_name("step_triton.py").read_text("utf-8")
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return next(node for node in functions if node.name == "_activated")


def test_the_kernels_have_every_activation() -> None:
    constants = [node for node in ast.walk(activated()) if isinstance(node, ast.Compare)]
    names = {ast.literal_eval(node.comparators[0]) for node in constants}
    assert names == STEP_ACTIVATIONS | {"none"} == {*get_args(Activation), "none"}


def test_an_activation_that_the_kernels_lack_stops_their_compilation() -> None:
    chain = next(node for node in activated().body if isinstance(node, ast.If))
    while len(chain.orelse) == 1 and isinstance(chain.orelse[0], ast.If):
        chain = chain.orelse[0]
    assert len(chain.orelse) == 1
    assert ast.unparse(chain.orelse[0]).startswith("tl.static_assert(ACTIVATION == 'none'")


def test_a_model_with_another_activation_is_left_to_other_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes = {"d_model": 48, "attention.d_head": 16}
    model = build(tiny_architecture("llama", changes))  # silu
    monkeypatch.setattr(fused_step, "has_step_kernels", lambda device: True)
    assert fused_step.can_fuse_step(model, 3)
    monkeypatch.setattr(fused_step, "STEP_ACTIVATIONS", STEP_ACTIVATIONS - {"silu"})
    assert not fused_step.can_fuse_step(model, 3)


@pytest.mark.parametrize("norm", ["value_norm", "output_norm"])
def test_norms_of_values_and_outputs_are_left_to_other_kernels(
    norm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"d_model": 48, "attention.d_head": 16, f"attention.{norm}": True}
    monkeypatch.setattr(fused_step, "has_step_kernels", lambda device: True)
    assert not fused_step.can_fuse_step(build(tiny_architecture("llama", changes)), 3)


def test_a_placement_that_a_block_does_not_know_is_refused() -> None:
    model = build(tiny_architecture("gpt2"))
    for block in model.stack.layers:
        assert isinstance(block, TransformerBlock)
        block.placement = "between"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AssertionError, match="'between'"):
        model(Batch.of(random_tokens(1, 3)))


def test_items_of_a_new_kind_are_not_looked_over() -> None:
    class NewItem(TaskItem): ...

    item = NewItem.__new__(NewItem)
    with pytest.raises(AssertionError, match="a NewItem has texts that nobody looks for"):
        list(iterate_texts([item]))
