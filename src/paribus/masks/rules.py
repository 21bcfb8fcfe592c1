"""Rules: boolean, static statements about who may see whom.

A rule is a value. It is written with comparison operators alone, so that one definition serves
numpy (pictures, counts, plans) and torch (dense masks, FlexAttention). `True` means visible. Each
picture has a row per query, a column per key and `#` where the key is visible; a law test compares
every picture with the dense mask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from paribus.errors import SpecError

MAX_RULE_SIZE = 10_000_000  # of a window or stride


class PositionInfo(Protocol):
    """What a rule may ask about a query or a key: arrays that broadcast against the other
    side's.
    """

    @property
    def index(self) -> Any: ...  # place in the sequence, counted from 0
    @property
    def document(self) -> Any: ...  # number of the document the token belongs to
    @property
    def in_prefix(self) -> Any: ...  # does it belong to the prefix
    @property
    def real(self) -> Any: ...  # is it a token, not padding


@dataclass(frozen=True)
class Rule:
    """Who may see whom; combine with `&` and `|`."""

    _repr_html_: ClassVar[Callable[[Rule], str]]  # how a notebook shows it: masks.drawing

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        """Where the query may see the key, as a boolean array of the broadcast shape."""
        raise TypeError(
            f"{self} differs by head or layer; call rule_at_layer and rule_at_head first"
        )

    def sees_new(self, prefix_grows: bool) -> bool:
        """Could an old query see a token appended later, or one after it that it did not see
        before?
        """
        raise TypeError(
            f"{self} differs by head or layer; call rule_at_layer and rule_at_head first"
        )

    def __and__(self, other: Rule) -> Rule:
        if isinstance(other, Full) or other in _clauses(self, And):
            return self
        if isinstance(self, Full):
            return other
        # Leaning left, as written without brackets, so that text and value are one to one.
        if isinstance(other, And):
            return self & other.left & other.right
        return And(self, other)

    def __or__(self, other: Rule) -> Rule:
        if isinstance(self, Full) or other in _clauses(self, Or):
            return self
        if isinstance(other, Full):
            return other
        if isinstance(other, Or):
            return self | other.left | other.right
        return Or(self, other)


@dataclass(frozen=True)
class Full(Rule):
    """Everyone sees everyone: an encoder.

    ####
    ####
    ####
    ####
    """

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        return (query.index >= 0) & (key.index >= 0)

    def sees_new(self, prefix_grows: bool) -> bool:
        return True

    def __str__(self) -> str:
        return "full"


@dataclass(frozen=True)
class Causal(Rule):
    """Self and everything before: a decoder.

    #...
    ##..
    ###.
    ####
    """

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        return key.index <= query.index

    def sees_new(self, prefix_grows: bool) -> bool:
        return False

    def __str__(self) -> str:
        return "causal"


@dataclass(frozen=True)
class Reverse(Rule):
    """Self and everything after: upper-triangular.

    ####
    .###
    ..##
    ...#
    """

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        return key.index >= query.index

    def sees_new(self, prefix_grows: bool) -> bool:
        return True

    def __str__(self) -> str:
        return "reverse"


@dataclass(frozen=True)
class Prefix(Rule):
    """Causal, but everyone sees the whole prefix (here the first 2 of 4): UniLM, prefix LM.

    ##..
    ##..
    ###.
    ####
    """

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        return key.in_prefix | (key.index <= query.index)

    def sees_new(self, prefix_grows: bool) -> bool:
        return prefix_grows

    def __str__(self) -> str:
        return "prefix"


@dataclass(frozen=True)
class SameSide(Rule):
    """Tokens on the query's own side of the prefix's end (here 2 of 4); `causal & same_side`
    hides input from output.

    ##..
    ##..
    ..##
    ..##
    """

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        # Not `==`: the compiler of CUDA kernels cannot compare truths.
        return (query.in_prefix & key.in_prefix) | (~query.in_prefix & ~key.in_prefix)

    def sees_new(self, prefix_grows: bool) -> bool:
        return True

    def __str__(self) -> str:
        return "same_side"


@dataclass(frozen=True)
class Window(Rule):
    """The last n tokens including self (here n=2).

    #...
    ##..
    .##.
    ..##
    """

    n: int

    def __post_init__(self) -> None:
        _require_size(self, self.n)

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        return (key.index <= query.index) & (query.index - key.index < self.n)

    def sees_new(self, prefix_grows: bool) -> bool:
        return False

    def __str__(self) -> str:
        return f"window({self.n})"


@dataclass(frozen=True)
class Strided(Rule):
    """Tokens a multiple of n away, on both sides (here n=2); `causal & strided(n)` looks back only.

    #.#.
    .#.#
    #.#.
    .#.#
    """

    n: int

    def __post_init__(self) -> None:
        _require_size(self, self.n)

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        return (query.index - key.index) % self.n == 0

    def sees_new(self, prefix_grows: bool) -> bool:
        return True

    def __str__(self) -> str:
        return f"strided({self.n})"


@dataclass(frozen=True)
class SameDocument(Rule):
    """Tokens of the query's own document (here two documents of 2).

    ##..
    ##..
    ..##
    ..##
    """

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        return query.document == key.document

    def sees_new(self, prefix_grows: bool) -> bool:
        return True

    def __str__(self) -> str:
        return "same_document"


@dataclass(frozen=True)
class DocumentsSoFar(Rule):
    """Tokens of the query's own document and of those before it (here two documents of 2); for a
    decoder of conversations, whose turns are documents of its source.

    ##..
    ##..
    ####
    ####
    """

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        return key.document <= query.document

    def sees_new(self, prefix_grows: bool) -> bool:
        return True

    def __str__(self) -> str:
        return "documents_so_far"


@dataclass(frozen=True)
class Padding(Rule):
    """Real tokens, never padding (here the last of 4 is padding).

    ###.
    ###.
    ###.
    ###.
    """

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        return (query.index >= 0) & key.real

    def sees_new(self, prefix_grows: bool) -> bool:
        return True

    def __str__(self) -> str:
        return "padding"


@dataclass(frozen=True)
class Nothing(Rule):
    """No token at all: a source that is cut off.

    ....
    ....
    ....
    ....
    """

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        return (query.index < 0) & (key.index < 0)

    def sees_new(self, prefix_grows: bool) -> bool:
        return False

    def __str__(self) -> str:
        return "nothing"


@dataclass(frozen=True)
class And(Rule):
    """What both rules let through: `causal & strided(2)`.

    #...
    .#..
    #.#.
    .#.#
    """

    left: Rule
    right: Rule

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        return self.left.sees(query, key) & self.right.sees(query, key)

    def sees_new(self, prefix_grows: bool) -> bool:
        # Exact, not merely safe: in one document of real tokens, all inside a growing prefix or
        # none in a fixed one, rules that can see new tokens at all see those at a common multiple
        # of their strides together.
        return self.left.sees_new(prefix_grows) and self.right.sees_new(prefix_grows)

    def __str__(self) -> str:
        return f"{_and_operand(self.left)} & {_and_operand(self.right)}"


def _and_operand(rule: Rule) -> str:
    """A rule as `&` takes it: `|` binds less."""
    if isinstance(rule, Or):
        return f"({rule})"
    return str(rule)


@dataclass(frozen=True)
class Or(Rule):
    """What either rule lets through: `window(2) | strided(3)`.

    #..#
    ##..
    .##.
    #.##
    """

    left: Rule
    right: Rule

    def sees(self, query: PositionInfo, key: PositionInfo) -> Any:
        return self.left.sees(query, key) | self.right.sees(query, key)

    def sees_new(self, prefix_grows: bool) -> bool:
        return self.left.sees_new(prefix_grows) or self.right.sees_new(prefix_grows)

    def __str__(self) -> str:
        return f"{self.left} | {self.right}"


@dataclass(frozen=True)
class CompositeRule(Rule):
    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        if len(self.rules) < 2:
            raise SpecError(
                f"{_composite_name(self)} has {len(self.rules)} rule; give two or more, or the rule"
                " itself"
            )

    def __str__(self) -> str:
        return f"{_composite_name(self)}({', '.join(map(str, self.rules))})"


@dataclass(frozen=True)
class ByHead(CompositeRule):
    """Equal groups of heads, each with its rule: `by_head(causal, reverse)`; a rule within
    divides its own heads.
    """


@dataclass(frozen=True)
class ByLayer(CompositeRule):
    """Equal groups of layers from the bottom up: `by_layer(full, causal)`; as many rules as
    layers is any list.

    A rule within divides its own layers: `by_layer(by_layer(a, b), c)` of four layers is a, b, c,
    c.
    """


@dataclass(frozen=True)
class Alternate(CompositeRule):
    """Layer by layer in turn: `alternate(causal, reverse)`; a rule within has every layer at
    which it has the turn.
    """


LEAF_RULES: dict[str, type[Rule]] = {
    "full": Full,
    "causal": Causal,
    "reverse": Reverse,
    "prefix": Prefix,
    "same_side": SameSide,
    "same_document": SameDocument,
    "documents_so_far": DocumentsSoFar,
    "padding": Padding,
    "nothing": Nothing,
}
SIZED_RULES: dict[str, type[Window] | type[Strided]] = {"window": Window, "strided": Strided}
PREFIX_RULES = frozenset({Prefix(), SameSide()})  # what they show depends on where the prefix ends
DOCUMENT_RULES = frozenset({SameDocument(), DocumentsSoFar()})  # they ask for documents
COMPOSITE_RULES: dict[str, type[CompositeRule]] = {
    "by_head": ByHead,
    "by_layer": ByLayer,
    "alternate": Alternate,
}


def _clauses(rule: Rule, operator: type[And] | type[Or]) -> tuple[Rule, ...]:
    """A rule and what it is a chain of: `a & b & c` is itself, `a & b`, a, b and c."""
    if isinstance(rule, operator):
        return (rule, *_clauses(rule.left, operator), rule.right)
    return (rule,)


def _composite_name(rule: CompositeRule) -> str:
    for name, kind in COMPOSITE_RULES.items():
        if type(rule) is kind:
            return name
    raise AssertionError(f"{type(rule).__name__} has no name")


def _require_size(rule: Rule, n: int) -> None:
    if not 1 <= n <= MAX_RULE_SIZE:
        raise SpecError(f"mask {rule} has size {n}; use 1 to {MAX_RULE_SIZE}")
