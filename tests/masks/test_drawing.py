"""How a notebook shows a mask: a picture for every distinct rule of its layers and heads."""

import re

import pytest

from paribus.masks import parse_rule


@pytest.mark.parametrize(
    ("mask", "drawn"),
    [
        ("causal", ["causal"]),
        ("by_head(causal, reverse)", ["causal", "reverse"]),
        ("by_layer(full, by_head(causal, reverse), causal)", ["full", "causal", "reverse"]),
        (
            "alternate(causal, reverse) & window(3)",
            ["causal &amp; window(3)", "reverse &amp; window(3)"],
        ),
        ("by_head(alternate(causal, reverse), full)", ["causal", "full", "reverse"]),
    ],
)
def test_a_notebook_shows_every_distinct_rule_once(mask: str, drawn: list[str]) -> None:
    shown = parse_rule(mask)._repr_html_()
    assert re.findall(r'aria-label="([^"]*)"', shown) == drawn
    assert shown.count('<path d="M') == len(drawn)


def test_what_is_visible_is_filled() -> None:
    shown = parse_rule("causal")._repr_html_()
    bars = re.findall(r"M0 (\d+)h(\d+)v1h-\2z", shown)
    assert [int(width) for _, width in bars] == list(range(1, 17))
