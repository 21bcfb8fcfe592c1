"""Which mechanism is looked at, and on how much text: a closed union of probes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, ValidationError

from paribus.errors import SpecError
from paribus.nearest import did_you_mean
from paribus.spec.base import MAX_SIZE, Count, NonNegative, Positive, Spec, as_tuple, read_kind
from paribus.spec.reading import describe_faults

TextLength = Annotated[int, Field(ge=2, le=1_000_000)]


class TextProbe(Spec):
    """The base of probes: so many texts of one length, one document each, without padding."""

    n_texts: Count = 16
    """Number of texts."""
    length: TextLength | None = None
    """Tokens of each text. If not set, as many as a row had in training."""


class RankProbe(TextProbe):
    """How many directions attention uses: effective, stable and numerical rank, and log |det|."""

    kind: Literal["rank"] = "rank"
    n_texts: Count = 4
    """Number of texts. Spectra are costly, so there are fewer than in other probes."""
    score_sds: Annotated[tuple[Positive, ...], BeforeValidator(as_tuple)] = (1.0, 4.0)
    """Standard deviations to which the visible scores of each head are also rescaled, so that
    masks are compared at one scale.
    """
    n_directions: Annotated[tuple[Count, ...], BeforeValidator(as_tuple)] = (1, 4, 16)
    """For which k the share of energy in the first k directions is told."""


class CollapseProbe(TextProbe):
    """How alike the states of a text's tokens become with depth, also without skips and without
    feed-forward, in the same weights.
    """

    kind: Literal["collapse"] = "collapse"
    start: bool = True
    """Whether the model is looked at as it was before training, too."""


class ExpertsProbe(TextProbe):
    """What experts are chosen for: load, domains, tokens, repeats and co-activation."""

    kind: Literal["experts"] = "experts"
    n_texts: Count = 64
    """Number of texts of each domain. The sources of a corpus are its domains."""
    n_tokens: Count = 8
    """How many tokens are listed that an expert prefers."""


class PositionsProbe(TextProbe):
    """How well a token's position can be read off its state, layer by layer."""

    kind: Literal["positions"] = "positions"
    n_texts: Annotated[int, Field(ge=2, le=MAX_SIZE)] = 32
    """Number of texts. Half of them fit a probe, the others test it."""
    classifier: bool = False
    """Whether a classifier of two layers is fitted beside the line. It takes a minute a layer."""
    start: bool = True
    """Whether the model is looked at as it was before training, too: the control."""
    seed: NonNegative = 0
    """Seed of the halves, and of the classifier."""


class FlowProbe(TextProbe):
    """How far attention looks, how widely, where it rests, and which tokens move a state."""

    kind: Literal["flow"] = "flow"
    n_directions: Count = 16
    """In how many directions of a state its gradient is taken. From d_model on, gradient norms
    are exact.
    """
    seed: NonNegative = 0
    """Seed of the directions."""


class ContextProbe(TextProbe):
    """How much of its context a model makes use of: the loss of the last quarter of each text, as
    the context before it is cut or shuffled, and the loss by position.
    """

    kind: Literal["context"] = "context"
    n_texts: Count = 64
    """Number of texts."""
    seed: NonNegative = 0
    """Seed of the order of shuffled tokens."""


class GradientsProbe(TextProbe):
    """Gradient norms of the training objective by layer, and the curvature of its loss."""

    kind: Literal["gradients"] = "gradients"
    start: bool = True
    """Whether the model is looked at as it was before training, too."""
    curvature: bool = True
    """Whether curvature is measured. It takes several times as long as a gradient."""
    seed: NonNegative = 0
    """Seed of what the objective draws, such as masks and splits."""


class CorruptionProbe(TextProbe):
    """What the corrupted input of training costs: the loss of the same targets with the masks or
    spans of training elsewhere in the text, and without.
    """

    kind: Literal["corruption"] = "corruption"
    n_texts: Count = 32
    """Number of texts."""
    n_questions: Count = 8
    """How many masked tokens or spans of each text are asked for."""
    seed: NonNegative = 0
    """Seed of masks and spans."""


class DescentProbe(TextProbe):
    """Whether a prompt of demonstrations acts like a step of fine-tuning on them, in runs that were
    trained on `classification`.
    """

    kind: Literal["descent"] = "descent"
    n_texts: Count = 64
    """Number of queries, each with demonstrations of a function of its own. At least 20."""
    n_others: Count = 32
    """Number of other queries, which choose how long the step is."""
    start: bool = True
    """Whether the model is looked at as it was before training, too: the control."""
    seed: NonNegative = 0
    """Seed of the random updates that similarities are held against."""


class InContextProbe(Spec):
    """What a model makes of examples in its input, by their number, beside ridge, gradient descent
    and the mean. Its run was last trained on `regression` or `classification`.
    """

    kind: Literal["in-context"] = "in-context"
    n_texts: Count = 400
    """Number of documents. Their functions are new to the run."""


HeldOutProbe = (
    RankProbe
    | CollapseProbe
    | ExpertsProbe
    | PositionsProbe
    | FlowProbe
    | ContextProbe
    | GradientsProbe
    | CorruptionProbe
    | DescentProbe
)
Probe = HeldOutProbe | InContextProbe
ProbeKind = Annotated[Probe, Field(discriminator="kind"), BeforeValidator(read_kind)]
PROBES: Mapping[str, type[Probe]] = {
    kind.model_fields["kind"].default: kind for kind in get_args(Probe)
}


class _ProbeTable(Spec):
    probe: ProbeKind


def load_probe(kind: str, changes: Mapping[str, Any] | None = None) -> Probe:
    """A probe by its kind, with changes to its fields; SpecError where there is none."""
    if kind not in PROBES:
        raise SpecError(
            f"{kind!r} is no probe; {did_you_mean(kind, PROBES)}use one of {', '.join(PROBES)}"
        )
    table = {"probe": {"kind": kind, **(changes or {})}}
    try:
        return _ProbeTable.model_validate(table).probe
    except ValidationError as fault:
        faults = describe_faults(fault, table, _ProbeTable)
        named = [text.replace("probe.", f"{kind}.", 1) for text in faults]
        raise SpecError(named) from None
