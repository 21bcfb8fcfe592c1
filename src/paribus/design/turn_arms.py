"""Architectures that hold a conversation, each long enough for it and, where it is asked, as large
as the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paribus.design.design_files import CONVERSATIONS, designs_folder
from paribus.design.matching.size_match import match_size
from paribus.errors import SpecError
from paribus.interop.loaded_checkpoint import LoadedCheckpoint
from paribus.nearest import did_you_mean
from paribus.spec import Architecture, load, resolve
from paribus.spec.conversation import (
    Conversation,
    Custom,
    encode_each_turn,
    possible_customs,
)
from paribus.spec.match import Match, match_lengths
from paribus.spec.merging import merge_tables
from paribus.spec.turn_design import TurnDesign, load_turn_design


@dataclass(frozen=True)
class ConversationArm:
    """An architecture under a name, how it holds a conversation, and what moved for its size."""

    name: str
    custom: Custom
    architecture: Architecture
    moved_fields: dict[str, tuple[Any, Any]]
    checkpoint: LoadedCheckpoint | None = None  # None: its weights are drawn

    @property
    def label(self) -> str:
        """The name, with the custom where that says more."""
        if self.custom == "one sequence":
            return self.name
        return f"{self.name}, {self.custom}"


def find_turn_design(
    source: str | Path, scale: str | None = None, changes: dict[str, Any] | None = None
) -> TurnDesign:
    """A design of conversations: one that comes with paribus, or a file."""
    path = Path(source)
    if str(source) in CONVERSATIONS:
        path = designs_folder() / f"{source}.toml"
    elif path.suffix not in (".toml", ".json"):
        advice = did_you_mean(str(source), CONVERSATIONS)
        raise SpecError(
            f"{source} is neither a design of conversations nor a .toml or .json file;"
            f" {advice}designs of conversations are {', '.join(CONVERSATIONS)}"
        )
    return load_turn_design(path, scale, changes)


def design_arms(design: TurnDesign) -> list[ConversationArm]:
    """The arms of a design, the baseline first, at its size."""
    conversation, named = design.conversation, {}
    for name in (design.baseline, *design.arms):
        table = merge_tables(design.base, design.arms[name].architecture)
        named[name] = load(table, max_length=conversation.length)
    arms: list[ConversationArm] = []
    possible: dict[str, list[str]] = {}
    for arm in conversation_arms(named, conversation, design.match):
        possible.setdefault(arm.name, []).append(arm.custom)
        if design.arms[arm.name].custom in (None, arm.custom):
            arms.append(arm)
    for name, customs in possible.items():
        custom = design.arms[name].custom
        if custom is not None and custom not in customs:
            raise SpecError(
                f"arms.{name}.custom is {custom!r}, but it holds a conversation by"
                f" {' or '.join(map(repr, customs))}; use that, or leave it out"
            )
    return arms


def conversation_arms(
    named: dict[str, Architecture], conversation: Conversation, match: Match
) -> list[ConversationArm]:
    """One arm for each custom of each architecture. All are as large as the first, by `match`."""
    arms: list[ConversationArm] = []
    baseline = next(iter(named.values()))
    for name, architecture in named.items():
        sized, moved = _match(architecture, baseline, match, conversation)
        variants = [sized]
        if _reads_conversation_anew(sized):
            variants.append(encode_each_turn(sized))
        for variant in variants:
            for custom in possible_customs(resolve(variant)):
                arm = ConversationArm(
                    name=name, custom=custom, architecture=variant, moved_fields=moved
                )
                arms.append(arm)
    return arms


def _reads_conversation_anew(architecture: Architecture) -> bool:
    return "encode conversation" in possible_customs(resolve(architecture))


def _match(
    architecture: Architecture, baseline: Architecture, match: Match, conversation: Conversation
) -> tuple[Architecture, dict[str, tuple[Any, Any]]]:
    if not match.sizes:
        return architecture, {}
    lengths = match_lengths(match, conversation.length)
    sized = match_size(architecture, baseline, match, *lengths)
    return sized.architecture, sized.moved_fields
