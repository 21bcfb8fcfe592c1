"""Haviv's classifier of positions: finds what a line cannot, and nothing where nothing is."""

import torch
from torch import Tensor

from paribus.probe.linear_probe import position_task, ridge_position_score
from paribus.probe.position_classifier import (
    ClassifierTraining,
    classifier_position_score,
    position_logits,
)

B, T, D = 22, 13, 6
SHORT = ClassifierTraining(n_steps=300, tokens_per_step=128, learning_rate=1e-2)


def noise(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def curved_states() -> Tensor:
    """Positions on a circle: each is apart from the others, and no line orders them."""
    angles = 2 * torch.pi * torch.arange(T) / T
    circle = torch.stack([angles.cos(), angles.sin()], -1).expand(B, T, 2)
    return torch.cat([circle, 0.1 * noise(B, T, D - 2)], -1)


def test_the_classifier_finds_positions_that_no_line_gives():
    states = curved_states()
    found = classifier_position_score(states, seed=1, training=SHORT)
    assert found.accuracy > 0.95
    assert found.mean_distance < 0.5
    assert ridge_position_score(states, seed=1).accuracy < 0.5


def test_states_without_positions_are_guessed_at_chance():
    """Two independent positions are (T² - 1) / 3T apart on average."""
    score = classifier_position_score(noise(B, T, D), seed=1, training=SHORT)
    chance = (T**2 - 1) / (3 * T)
    assert 0.75 * chance < score.mean_distance < 1.25 * chance
    assert score.accuracy < 0.2


def test_shuffled_positions_cannot_be_found():
    score = classifier_position_score(curved_states(), seed=1, is_shuffled=True, training=SHORT)
    assert score.accuracy < 0.2


def test_the_same_seed_gives_the_same_score():
    training = ClassifierTraining(n_steps=20, tokens_per_step=64)
    first, again, other = (
        classifier_position_score(noise(B, T, D), seed=seed, training=training)
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_the_global_generator_is_left_alone():
    before = torch.random.get_rng_state()
    classifier_position_score(noise(B, T, D), 1, training=ClassifierTraining(n_steps=2))
    assert torch.equal(before, torch.random.get_rng_state())


def test_logits_are_computed_by_hand():
    up, down = torch.tensor([[1.0, -1.0]]), torch.tensor([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0]])
    assert position_logits(torch.tensor([[2.0], [-1.0]]), up, down).tolist() == [
        [4, 0, 2],
        [0, 3, 1],
    ]


def test_the_score_is_computed_by_hand():
    task = position_task(noise(2, 3, D), seed=1)
    score = task.score(torch.tensor([[0.2, 2.0, 1.0]]))
    assert score.n_tokens == 3
    assert score.accuracy == 1 / 3
    assert abs(score.mean_distance - 2.2 / 3) < 1e-6
    assert abs(score.r2 - (1 - 2.04 / 3 / (2 / 3))) < 1e-6
