"""The table of names: every tensor of ours and of theirs once, and the way there undone by the
way back.
"""

import pytest
import torch
from hf_folder import CHANGES, random_model

from paribus.interop.family_choice import choose_family
from paribus.interop.tensor_pairs import conv1d_pairs, reordered_rows, single_row, stacked_experts


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("preset", CHANGES)
def test_every_tensor_has_one_place_and_comes_back_from_it(preset: str, tied: bool):
    model = random_model(preset, {"head.tied": tied})
    family, _, given = choose_family(model.spec)
    pairs = list(family.tensor_pairs(model.spec, given))
    ours = [name for pair in pairs for name in pair.ours]
    theirs = [name for pair in pairs for name in pair.theirs]
    assert sorted(ours) == sorted(model.state_dict())
    assert len(set(theirs)) == len(theirs)
    for pair in pairs:
        tensors = [model.state_dict()[name] for name in pair.ours]
        assert all(
            torch.equal(*both) for both in zip(tensors, pair.read(pair.write(tensors)), strict=True)
        )


def test_three_matrices_lie_side_by_side_in_a_conv1d():
    weight, bias = conv1d_pairs(["q", "k", "v"], "c_attn")
    parts = [torch.full((2, 3), float(number)) for number in range(3)]
    (fused,) = weight.write(parts)
    assert fused.tolist() == [[0, 0, 1, 1, 2, 2]] * 3
    assert (weight.ours, weight.theirs) == (
        ("q.weight", "k.weight", "v.weight"),
        ("c_attn.weight",),
    )
    assert [part.tolist() for part in bias.read([torch.arange(6)])] == [[0, 1], [2, 3], [4, 5]]


def test_an_order_of_rows_says_where_ours_come_from():
    (ours,) = reordered_rows("ours", "theirs", [0, 2, 1]).read([torch.tensor([10, 11, 12])])
    assert ours.tolist() == [10, 12, 11]


def test_experts_are_stacked_and_a_row_is_a_vector():
    (ours,) = stacked_experts("up", ["0", "1"]).read([torch.tensor([[1]]), torch.tensor([[2]])])
    assert ours.tolist() == [[[1]], [[2]]]
    assert single_row("bias", "final").write([torch.tensor([1, 2])])[0].tolist() == [[1, 2]]
