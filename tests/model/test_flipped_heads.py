"""Heads whose sequences are reversed."""

import torch

from paribus.model.kernels.flipped_heads import flipped_heads


def test_flipped_heads_run_backwards_in_marked_groups():
    heads = torch.arange(4 * 3.0).view(1, 4, 3, 1)
    (flipped,) = flipped_heads((heads,), (False, True))
    assert flipped.flatten(1).tolist() == [[0, 1, 2, 3, 4, 5, 8, 7, 6, 11, 10, 9]]
