"""Pictures in the terminal are the dense masks."""

import numpy as np
import pytest

from paribus.cli.terminal.mask_drawing import (
    SIDE,
    coarse_mask,
    coarse_stride,
    draw_icon,
    draw_icons,
    draw_mask,
    mask_panels,
)
from paribus.masks import SequenceLayout, dense_mask, parse_rule, rule_at_head, rule_at_layer
from paribus.spec import load, presets, resolve

HALVES = {" ": (0, 0), "▀": (1, 0), "▄": (0, 1), "█": (1, 1)}
RULES = [
    "full",
    "causal",
    "reverse",
    "prefix",
    "window(3)",
    "strided(3)",
    "window(2) | prefix",
    "same_document",
    "documents_so_far",
    "same_side",
    "causal & same_side",
]


def read(text: str) -> np.ndarray:
    """The squares of a framed picture."""
    rows = [line[1:-1] for line in text.splitlines()[1:-1]]
    return np.array([[HALVES[mark][half] for mark in row] for row in rows for half in (0, 1)], bool)


def layout(length: int, prefix: int) -> SequenceLayout:
    return SequenceLayout(length, prefix, documents=np.arange(length) >= length * 5 // 8)


@pytest.mark.parametrize("text", RULES)
def test_a_picture_is_the_dense_mask(text):
    rule = parse_rule(text)
    drawn = read(draw_mask(coarse_mask(rule, SIDE, 0.5), ascii_only=False))
    np.testing.assert_array_equal(drawn, dense_mask(rule, layout(SIDE, SIDE // 2)))


@pytest.mark.parametrize("text", RULES)
def test_a_plain_picture_is_the_dense_mask(text):
    rule = parse_rule(text)
    rows = draw_mask(coarse_mask(rule, SIDE, 0.25), ascii_only=True).splitlines()
    drawn = np.array([[mark == "#" for mark in row] for row in rows])
    np.testing.assert_array_equal(drawn, dense_mask(rule, layout(SIDE, SIDE // 4)))


@pytest.mark.parametrize("text", RULES)
def test_an_icon_is_the_dense_mask_of_four_positions(text):
    rule = parse_rule(text)
    places = ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (3, 0), (3, 1))  # braille dots 1 to 8
    drawn = np.zeros((4, 4), bool)
    for column, mark in enumerate(draw_icon(coarse_mask(rule, 4, 0.5))):
        for bit, (row, side) in enumerate(places):
            drawn[row, 2 * column + side] = (ord(mark) - 0x2800) >> bit & 1
    scale = coarse_stride(rule, 4)
    np.testing.assert_array_equal(
        drawn, dense_mask(rule, layout(4 * scale, 2 * scale))[::scale, ::scale]
    )


def test_a_wide_window_is_drawn_to_scale():
    rule = parse_rule("causal & window(256)")
    assert coarse_stride(rule, SIDE) == 64
    drawn = read(draw_mask(coarse_mask(rule, SIDE, 0), ascii_only=False))
    np.testing.assert_array_equal(drawn, dense_mask(rule, SequenceLayout(64 * SIDE))[::64, ::64])


def test_strides_are_never_drawn_to_scale():
    assert coarse_stride(parse_rule("window(256) | strided(3)"), SIDE) == 1


@pytest.mark.parametrize("name", presets())
def test_the_panels_of_a_preset_cover_every_layer_and_head(name):
    spec = load(name)
    stack = resolve(spec).stack
    shown = {panel.rule for panel in mask_panels(stack, "layers", 0.5)}
    n_heads = spec.attention.n_heads
    layers = (rule_at_layer(spec.mask, layer, spec.n_layers) for layer in range(spec.n_layers))
    assert shown == {
        rule_at_head(rule, head, n_heads) for rule in layers for head in range(n_heads)
    }


def test_panels_say_where_their_rule_holds():
    mixed = load("gpt2", mask="by_layer(by_head(causal, reverse), same_document & window(64))")
    found = mask_panels(resolve(mixed).stack, "layers", 0)
    assert [panel.where for panel in found] == [
        "layers 0–5, heads 0–5",
        "layers 0–5, heads 6–11",
        "layers 6–11",
    ]
    assert [panel.note for panel in found] == ["", "", "two documents, a square is 16 positions"]


def test_more_than_three_icons_are_cut_short():
    many = load("gpt2", mask="by_head(causal, reverse, full, window(2))")
    assert draw_icons(resolve(many).stack, 0).split(" ")[3:] == ["…"]
