"""The designs that come with paribus, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import paribus
from paribus.errors import SpecError
from paribus.nearest import did_you_mean
from paribus.spec.design import Design
from paribus.spec.design_reading import load_design, require_valid_design

_HERE = Path(paribus.__file__).parent
# of an installation, of a checkout
DESIGN_FOLDERS = (
    _HERE / "designs",
    _HERE.parents[1] / "designs",
)

CONVERSATIONS = ("turns",)  # designs that train nothing: `paribus turns --design`


def designs_folder() -> Path:
    """Where the designs lie."""
    for place in DESIGN_FOLDERS:
        if (place / "claims.toml").is_file():
            return place
    return DESIGN_FOLDERS[0]


def shipped_designs() -> tuple[str, ...]:
    """The names of all designs of training that come with paribus."""
    names = {path.stem for path in designs_folder().glob("*.toml")}
    return tuple(sorted(names - {"claims", *CONVERSATIONS}))


def find_design(
    source: str | Path | Mapping[str, Any] | Design,
    scale: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> tuple[str, Design]:
    """A design and its name: a shipped one's, a file's stem, or `design` for what has none."""
    if isinstance(source, Design):
        if scale is not None or changes:
            raise SpecError(
                f"scale is {scale!r} of a design that was read already; give it, and changes, when"
                " reading"
            )
        require_valid_design(source)
        return "design", source
    if isinstance(source, Mapping):
        return "design", load_design(source, scale, changes)
    path = Path(source)
    if str(source) in CONVERSATIONS:
        raise SpecError(
            f"{source} is a design of conversations, which trains nothing; use paribus turns"
            f" --design {source}"
        )
    if str(source) in shipped_designs():
        path = designs_folder() / f"{source}.toml"
    elif path.suffix not in (".toml", ".json"):
        advice = did_you_mean(str(source), shipped_designs())
        raise SpecError(
            f"{source} is neither a design nor a .toml or .json file; {advice}designs are"
            f" {', '.join(shipped_designs())}"
        )
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-.") or "design"
    return (f"{name}-{scale}" if scale else name), load_design(path, scale, changes)
