"""What is predicted: a closed union of objectives."""

from __future__ import annotations

from math import ceil, floor, isfinite
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from paribus.spec.base import Count, Positive, Spec, read_kind

ProperFraction = Annotated[float, Field(gt=0, lt=1)]
Mode = Literal["R", "S", "X"]
Pooling = Literal["mean", "last", "first", "max"]
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
LabelCount = Annotated[int, Field(ge=2, le=100_000)]


def _require_split(least: float, most: float, grid: int) -> None:
    """ValueError unless a split may lie between two shares; one share alone needs no grid."""
    if least > most:
        raise ValueError(f"least is {least:g}, above most {most:g}; use at most that")
    if least < most and ceil(least * grid - 1e-9) > floor(most * grid + 1e-9):
        raise ValueError(
            f"grid is {grid}, which has no split between {least:g} and {most:g}; use a finer one"
        )


class CausalLM(Spec):
    """Each next token from all before it."""

    kind: Literal["causal"] = "causal"


class ReverseLM(Spec):
    """Each token from all after it."""

    kind: Literal["reverse"] = "reverse"


class PrefixLM(Spec):
    """The tokens after a split, given all before it; one split for the whole batch of a step."""

    kind: Literal["prefix"] = "prefix"
    least: ProperFraction = 0.25
    """The split lies at this share of the length or later."""
    most: ProperFraction = 0.75
    """The split lies at this share of the length or earlier."""
    grid: Count = 16
    """The split lies at a multiple of 1/`grid` of the length. Few splits need few kernels."""

    @model_validator(mode="after")
    def _require_splits(self) -> PrefixLM:
        _require_split(self.least, self.most, self.grid)
        return self


class MaskedLM(Spec):
    """BERT: of the chosen tokens most are masked, some replaced, the rest left; each is
    predicted in its place.
    """

    kind: Literal["masked"] = "masked"
    rate: ProperFraction = 0.15
    """Share of tokens that are predicted."""
    masked: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Share of those that are replaced by the mask token."""
    replaced: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of those that are replaced by a random token. The rest stay as they are."""

    @model_validator(mode="after")
    def _require_hidden(self) -> MaskedLM:
        hidden = self.masked + self.replaced
        if hidden > 1 + 1e-9:
            raise ValueError(
                f"masked {self.masked:g} and replaced {self.replaced:g} are more than the tokens"
                " chosen; use shares that sum to at most 1"
            )
        if hidden == 0:
            raise ValueError(
                "masked 0 and replaced 0 let the model read every token that it is asked for;"
                " hide some, such as masked = 0.8"
            )
        return self


class LastToken(Spec):
    """The honest next-token question to an encoder: a context, one mask at its end, and the
    word under it.
    """

    kind: Literal["last_token"] = "last_token"
    least: ProperFraction = 0.25
    """The mask lies at this share of the length or later."""
    most: ProperFraction = 0.95
    """The mask lies at this share of the length or earlier."""
    grid: Count = 16
    """The mask lies at a multiple of 1/`grid` of the length. Few places need few kernels."""

    @model_validator(mode="after")
    def _require_splits(self) -> LastToken:
        _require_split(self.least, self.most, self.grid)
        return self


class SpanCorruption(Spec):
    """T5: spans replaced by sentinels; the answer is each sentinel and the span it hides."""

    kind: Literal["spans"] = "spans"
    mean_span: Positive = 3.0
    """Mean length of a span, in tokens."""
    rate: ProperFraction = 0.15
    """Share of tokens that spans hide."""


class Continuation(Spec):
    """UL2's S-denoiser: the last part of a text, given the rest."""

    kind: Literal["continuation"] = "continuation"
    rate: ProperFraction = 0.25
    """Share of the text that is predicted."""


class Seq2Seq(Spec):
    """The target of a pair, given its source."""

    kind: Literal["seq2seq"] = "seq2seq"


class TextLabels(Spec):
    """The label of a text, or of a pair of texts, through a linear head on its pooled states."""

    kind: Literal["labels"] = "labels"
    n_labels: LabelCount
    """Number of labels in the training text, which is the width of the head."""
    pooling: Pooling = "mean"
    """What of the states of a text's tokens the head reads: their mean, their greatest values, or
    the state of the last or the first token.
    """


class WordTags(Spec):
    """The tag of each word, through a linear head on the state at the word's last token."""

    kind: Literal["tags"] = "tags"
    n_labels: LabelCount
    """Number of tags in the training text, which is the width of the head."""


class OwnSamples(Spec):
    """Responses of the model that a stage begins with, ranked by an exact reward: the share of the
    answer's letters that stand in their places.
    """

    n_pairs: Count = 1000
    """Number of pairs whose rewards differ, for training. Ties are left out."""
    n_samples: Annotated[int, Field(ge=2)] = 4
    """Responses that are drawn to each prompt. The best and the worst are a pair."""
    temperature: Positive = 1.0
    """Temperature of the draws."""
    n_tokens: Count = 64
    """Tokens of the longest response. One that does not end by then is left out."""


class Preference(Spec):
    """Direct preference optimisation (arXiv 2305.18290): of two responses the chosen one is made
    likelier than the rejected one, compared with the model that the stage begins with.
    """

    kind: Literal["preference"] = "preference"
    beta: Positive = 0.1
    """How much a change of log-likelihood counts as reward. A smaller one allows larger changes."""
    own_samples: Annotated[OwnSamples | None, Field(exclude_if=lambda own: own is None)] = None
    """Pairs from the model's own responses to an invented language. If left out: the pairs are
    those of the corpus.
    """
    swapped: Annotated[bool, Field(exclude_if=lambda value: not value)] = False
    """Whether the rejected response is made the likelier one: a positive control, which must do
    harm.
    """


class MixtureComponent(Spec):
    """One objective of a mixture: how often, and under which mode token."""

    objective: SimpleKind
    """The objective: any kind but `mixture`, `ul2`, `labels`, `tags` and `preference`."""
    weight: Positive = 1.0
    """How often it is drawn: its weight over the sum of all weights."""
    mode: Mode | None = None
    """UL2's mode token in front of the input, for `prefix`, `spans` and `continuation`. If left
    out: there is none.
    """

    @model_validator(mode="after")
    def _require_mode_place(self) -> MixtureComponent:
        if self.mode is not None and not isinstance(
            self.objective, PrefixLM | SpanCorruption | Continuation
        ):
            raise ValueError(
                f"mode is {self.mode!r}, which {self.objective.kind!r} cannot use; leave it"
                " out, or use it with prefix, spans or continuation"
            )
        return self


def _as_tuple(value: Any) -> Any:
    """TOML and JSON have lists, specs tuples; none at all is refused."""
    if isinstance(value, list | tuple) and not value:
        raise ValueError("is an empty list; give at least one component")
    if isinstance(value, list):
        return tuple(value)
    return value


class Mixture(Spec):
    """One of its components at each step, drawn by weight."""

    kind: Literal["mixture"] = "mixture"
    components: Annotated[tuple[MixtureComponent, ...], BeforeValidator(_as_tuple)]
    """The objectives of the mixture."""

    @model_validator(mode="after")
    def _require_token_objectives(self) -> Mixture:
        for component in self.components:
            if isinstance(component.objective, TextLabels | WordTags):
                raise ValueError(
                    f"components has {component.objective.kind!r}, which reads labelled texts"
                    " through a head of its own; use it as the only objective of a stage"
                )
        return self

    @model_validator(mode="after")
    def _require_finite_weights(self) -> Mixture:
        weights = [part.weight for part in self.components]
        if not isfinite(sum(weights)):
            raise ValueError(
                f"components have weights up to {max(weights):g}, whose sum is not finite; use"
                " smaller ones"
            )
        return self


class UL2(Spec):
    """UL2's mixture of seven denoisers (arXiv 2205.05131), R and X over spans, S over
    continuations.
    """

    kind: Literal["ul2"] = "ul2"


SimpleKind = Annotated[
    CausalLM
    | ReverseLM
    | PrefixLM
    | MaskedLM
    | LastToken
    | SpanCorruption
    | Continuation
    | Seq2Seq
    | TextLabels
    | WordTags,
    Field(discriminator="kind"),
    BeforeValidator(read_kind),
]
ObjectiveKind = Annotated[
    CausalLM
    | ReverseLM
    | PrefixLM
    | MaskedLM
    | LastToken
    | SpanCorruption
    | Continuation
    | Seq2Seq
    | TextLabels
    | WordTags
    | Preference
    | Mixture
    | UL2,
    Field(discriminator="kind"),
    BeforeValidator(read_kind),
]
TokenObjective = (
    CausalLM | ReverseLM | PrefixLM | MaskedLM | LastToken | SpanCorruption | Continuation | Seq2Seq
)
HeadObjective = TextLabels | WordTags  # those that have a head of their own
SimpleObjective = TokenObjective | HeadObjective
Objective = SimpleObjective | Preference | Mixture | UL2
# those a name alone describes; a mixture is what it is made of, and a head has a width
OBJECTIVES_BY_KIND: dict[str, type[Objective]] = {
    model.model_fields["kind"].default: model for model in (*get_args(TokenObjective), UL2)
}
MixtureComponent.model_rebuild()
Mixture.model_rebuild()

_UL2_SPANS: tuple[tuple[Mode, float, float], ...] = (
    ("R", 3, 0.15),
    ("R", 8, 0.15),
    ("X", 3, 0.5),
    ("X", 8, 0.5),
    ("X", 64, 0.15),
    ("X", 64, 0.5),
)
UL2_COMPONENTS = (
    *(
        MixtureComponent(objective=SpanCorruption(mean_span=span, rate=rate), mode=mode)
        for mode, span, rate in _UL2_SPANS
    ),
    MixtureComponent(objective=Continuation(), mode="S"),
)


def components_of(objective: Objective) -> tuple[MixtureComponent, ...]:
    """What an objective is made of; a simple one is its only part, and that of a preference is how
    each of its responses is asked for.
    """
    match objective:
        case UL2():
            return UL2_COMPONENTS
        case Mixture():
            return objective.components
        case Preference():  # whose responses follow what comes before them, as in a pair
            return (MixtureComponent(objective=Seq2Seq()),)
        case _:
            return (MixtureComponent(objective=objective),)
