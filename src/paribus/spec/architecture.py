"""What a transformer is: frozen values, closed unions of small types, nothing read that is not
obeyed.

A field left at None follows from the others when the spec is resolved; every other default is the
value itself.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, InstanceOf, PlainSerializer

from paribus.errors import SpecError
from paribus.masks import Causal, Full, Rule, parse_rule
from paribus.masks.rules import LEAF_RULES, SIZED_RULES
from paribus.spec.base import Count, LayerCount, NonNegative, Positive, Share, Spec, read_kind
from paribus.spec.spelling import mask_words


def _read_mask(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse_rule(value)
    except SpecError as fault:
        raise ValueError(f"{fault}{mask_words(value, (*LEAF_RULES, *SIZED_RULES))}") from fault


Mask = Annotated[
    InstanceOf[Rule], BeforeValidator(_read_mask), PlainSerializer(str, return_type=str)
]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
Placement = Literal["pre", "post", "parallel"]
CrossPositions = Literal["none", "rotary"]
CrossForm = Literal["separate", "merged"]
ScaleFactor = Positive | Literal["sqrt_d_model", "rsqrt_d_model"]


class MultiHead(Spec):
    """Multi-, grouped- (n_kv_heads < n_heads) or multi-query (n_kv_heads = 1) attention."""

    kind: Literal["multi_head"] = "multi_head"
    n_heads: Count
    """Number of query heads."""
    n_kv_heads: Count | None = None
    """Number of key and value heads; it divides `n_heads`. If left out: `n_heads`."""
    d_head: Count | None = None
    """Width of one head. If left out: `d_model` / `n_heads`."""
    bias: bool = False
    """Whether the four projections have a bias."""
    qk_norm: bool | Literal["fixed"] = False
    """Whether queries and keys are normalised before their product. `true`: with learned gains;
    `fixed`: without gains and biases, so that `score_scale` alone sets the size of the scores.
    """
    value_norm: Annotated[bool, Field(exclude_if=lambda has: not has)] = False
    """Whether the values of each head are normalised, with learned gains."""
    output_norm: Annotated[bool, Field(exclude_if=lambda has: not has)] = False
    """Whether what all heads found is normalised together before the output projection, with
    learned gains.
    """
    score_scale: Positive | None = None
    """Factor on the attention scores, as it is, whatever `d_head`. If left out: 1/√`d_head`, and
    under `init = "mup"` √`d_head_base` / `d_head`.
    """


class Latent(Spec):
    """Latent attention of DeepSeek-V2/V3 (arXiv 2412.19437, 2.1.1): keys and values from one
    small latent.

    A head's query and key have d_content + d_rotary channels; the rotary ones of the key serve all
    heads.
    """

    kind: Literal["latent"] = "latent"
    n_heads: Count
    """Number of heads."""
    d_latent: Count
    """Width of the latent that keys and values come from."""
    d_query_latent: Count | None = None
    """Width of the latent that queries come from. If left out: queries come straight from the
    model width.
    """
    d_content: Count
    """Channels of a head's query and key that carry no position."""
    d_rotary: NonNegative
    """Channels of a head's query and key that are rotated. Use 0 without positions."""
    d_value: Count
    """Channels of a head's value."""


class Dense(Spec):
    """Two matrices and a non-linearity, or three with a gate (SwiGLU = gated silu, GEGLU =
    gated gelu).
    """

    kind: Literal["dense"] = "dense"
    d_ff: Count | None = None
    """Width between the two matrices. If left out: 4 × `d_model`."""
    activation: Activation = "gelu"
    """The non-linearity."""
    gated: bool = False
    """Whether a third matrix gates the hidden layer."""
    bias: bool = False
    """Whether the matrices have a bias."""


class NoBalance(Spec):
    """No auxiliary loss."""

    kind: Literal["none"] = "none"


class SequenceBalance(Spec):
    """DeepSeek-V3's loss over each sequence: weight · N/K · Σ (share of choices) · (mean
    normalised score).
    """

    kind: Literal["sequence"] = "sequence"
    weight: Positive = 1e-4
    """Weight of the balance loss."""


class BatchBalance(Spec):
    """Switch's loss over the whole batch: weight · N · Σ (share of tokens) · (mean probability)."""

    kind: Literal["batch"] = "batch"
    weight: Positive = 1e-2
    """Weight of the balance loss."""


class Router(Spec):
    """How a token picks its experts: the K best of score + selection bias, gates from the
    scores alone.
    """

    scores: Literal["softmax", "sigmoid"] = "softmax"
    """How router logits become scores."""
    normalise: bool = True
    """Whether the gates of the chosen experts are scaled to sum to 1."""
    scale: Positive = 1.0
    """Factor on the gates."""
    n_groups: Count = 1
    """Number of equal groups that the experts are divided into."""
    n_active_groups: Count = 1
    """Experts are chosen within this many groups. A group counts by its two best experts."""
    bias_rate: Positive | None = None
    """How far the selection bias moves up or down after each step. If left out: there is no such
    bias.
    """


class Experts(Spec):
    """Routed experts beside optional shared ones; nothing is dropped."""

    kind: Literal["experts"] = "experts"
    n_experts: Count
    """Number of routed experts in a layer."""
    n_active: Count
    """Number of routed experts that each token uses."""
    n_shared: NonNegative = 0
    """Number of experts that every token uses besides."""
    d_expert: Count | None = None
    """Width of one expert. If left out: 4 × `d_model`."""
    activation: Activation = "silu"
    """The non-linearity."""
    gated: bool = True
    """Whether each expert has a gate."""
    router: Router = Router()
    """How a token picks its experts."""
    balance: Annotated[
        NoBalance | SequenceBalance | BatchBalance,
        Field(discriminator="kind"),
        BeforeValidator(read_kind),
    ] = NoBalance()
    """The auxiliary loss that evens out the load of the experts."""
    n_dense_layers: NonNegative = 0
    """The first layers, this many, have no experts."""
    every: Count = 1
    """Of the other layers, every n-th has experts, n being this number."""
    d_ff: Count | None = None
    """Width of the layers without experts. If left out: 4 × `d_model`."""


class NoPositions(Spec):
    """No positions: order enters by the mask alone, if at all."""

    kind: Literal["none"] = "none"


class LearnedPositions(Spec):
    """A table of max_length rows; the first `offset` rows are never read (BART has 2)."""

    kind: Literal["learned"] = "learned"
    offset: NonNegative = 0
    """The first rows of the table, this many, are never read. BART has 2."""


class SinusoidalPositions(Spec):
    """Fixed sines and cosines of Vaswani et al. 2017, interleaved."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    theta: Positive = 10000.0
    """Base of the wavelengths."""


class RotaryPositions(Spec):
    """Queries and keys turned by their position (arXiv 2104.09864); channel i pairs with i +
    d/2.
    """

    kind: Literal["rotary"] = "rotary"
    theta: Positive = 10000.0
    """Base of the wavelengths."""


class RelativeBias(Spec):
    """T5's learned bias by bucketed distance, one table for all layers of a stack."""

    kind: Literal["relative_bias"] = "relative_bias"
    n_buckets: Annotated[int, Field(ge=4, multiple_of=4)] = 32
    """Number of distance buckets, a multiple of 4."""
    max_distance: Annotated[int, Field(ge=2)] = 128
    """Greater distances share the last bucket."""


class Alibi(Spec):
    """A penalty linear in distance, a slope per head (arXiv 2108.12409)."""

    kind: Literal["alibi"] = "alibi"


class LayerNorm(Spec):
    """Subtract the mean, divide by the standard deviation, multiply by a gain."""

    kind: Literal["layer"] = "layer"
    eps: Positive = 1e-5
    """Added to the variance."""
    bias: bool = True
    """Whether the norm has a bias beside its gain."""


class RMSNorm(Spec):
    """Divide by the root mean square, multiply by a gain."""

    kind: Literal["rms"] = "rms"
    eps: Positive = 1e-6
    """Added to the mean square."""


class Embedding(Spec):
    """From token ids to the states that the first layer reads."""

    scale: ScaleFactor = 1.0
    """Factor on the token embeddings: a number, √`d_model` or 1/√`d_model`."""
    norm: bool = False
    """Whether the embeddings are normalised before the first layer."""
    n_segments: NonNegative = 0
    """Number of segment embeddings: BERT has 2, for sentence A and sentence B."""


class Head(Spec):
    """From the states of the last layer to logits."""

    tied: bool = True
    """Whether the output head uses the table of the token embeddings."""
    bias: bool = False
    """Whether the output head has a bias."""
    scale: ScaleFactor = 1.0
    """Factor on what the head reads: a number, √`d_model` or 1/√`d_model`."""
    transform: Activation | None = None
    """The activation of a dense layer with a norm before the head, as in BERT. If left out:
    there is no such layer.
    """


class NormalInit(Spec):
    """Every matrix from N(0, std); with `residual`, those that write to the residual from N(0,
    std/√(2 n_layers)).
    """

    kind: Literal["normal"] = "normal"
    std: Positive = 0.02
    """Standard deviation of the initial weights."""
    residual: bool = False
    """Whether matrices that write to the residual stream get std/√(2 × `n_layers`)."""


class FanInInit(Spec):
    """Every matrix from N(0, gain/√(inputs)), tables from N(0, gain), a relative bias from N(0,
    gain/√d_model).

    Queries make up for a score scale other than 1/√d_head, so that scores start at one size: T5's
    own start. Queries that are normalised without gains cannot, and are drawn like the rest.
    """

    kind: Literal["fan_in"] = "fan_in"
    gain: Positive = 1.0
    """Factor on every standard deviation."""


class MupInit(Spec):
    """Maximal update parametrisation (arXiv 2203.03466, Table 8) at a base width of 64: the rate
    of one width serves others.

    Matrices start from N(0, 1/√inputs) and have the rate × 64/inputs, at a weight decay that keeps
    rate × decay; routers and heads of their own start from N(0, 8/inputs); queries start at zero.
    Logits of a tied head are multiplied by 64/d_model, and AdamW's eps by 1e-4. Tables, gains and
    biases have the written rate at every width.
    """

    kind: Literal["mup"] = "mup"
    std: Positive = 0.02
    """Standard deviation of tables, at every width."""
    d_head_base: Count = 32
    """Scores are multiplied by √`d_head_base` / `d_head`: 1/√`d_head` for heads of this width."""


class Encoder(Spec):
    """A second stack that reads the source; its output is what the main stack cross-attends to."""

    n_layers: LayerCount
    """Number of layers of the encoder. In a file it may be left out: `n_layers`."""
    mask: Mask = Full()
    """Who sees whom in the encoder."""
    cross: Annotated[Mask | None, Field(exclude_if=lambda rule: rule is None)] = None
    """Which documents of the source a token of the main stack sees: `full`, `same_document`,
    `documents_so_far` or `nothing`, a control that hides the source. If left out: its own where
    `mask` has `same_document`, otherwise all.
    """
    cross_positions: Annotated[CrossPositions, Field(exclude_if=lambda kind: kind == "none")] = (
        "none"
    )
    """How places enter cross-attention. `rotary`: keys are turned by their place in the source, and
    queries go on after the last of it that they see (RedLLM, arXiv 2510.26622).
    """
    cross_form: Annotated[CrossForm, Field(exclude_if=lambda kind: kind == "separate")] = "separate"
    """`separate`: cross-attention is a branch of its own. `merged`: one softmax over the source and
    the text so far, by the projections of self-attention (T5Gemma 2, arXiv 2512.14856).
    """
    shared: bool = False
    """Whether the encoder uses the blocks of the main stack, without their cross-attention. Where
    that is merged, the encoder is the main stack itself, and has no parameter of its own.
    """


AttentionKind = Annotated[
    MultiHead | Latent, Field(discriminator="kind"), BeforeValidator(read_kind)
]
FeedForwardKind = Annotated[
    Dense | Experts, Field(discriminator="kind"), BeforeValidator(read_kind)
]
PositionsKind = Annotated[
    NoPositions | LearnedPositions | SinusoidalPositions | RotaryPositions | RelativeBias | Alibi,
    Field(discriminator="kind"),
    BeforeValidator(read_kind),
]
NormKind = Annotated[LayerNorm | RMSNorm, Field(discriminator="kind"), BeforeValidator(read_kind)]
InitKind = Annotated[
    NormalInit | FanInInit | MupInit, Field(discriminator="kind"), BeforeValidator(read_kind)
]


class Architecture(Spec):
    """One transformer: a stack of blocks under a mask, with an encoder beside it or none."""

    n_vocab: Count
    """Number of token ids. In a run it may be left out: the tokenizer's."""
    max_length: Count
    """The longest sequence it reads. In a run it may be left out: the training's `length`."""
    d_model: Count
    """Width of the residual stream."""
    n_layers: LayerCount
    """Number of layers of the main stack."""
    mask: Mask = Causal()
    """Who sees whom, as a rule such as `causal & window(8)`."""
    attention: AttentionKind
    """The kind of attention."""
    feed_forward: FeedForwardKind = Dense()
    """The kind of feed-forward layer."""
    positions: PositionsKind = NoPositions()
    """How the place of a token enters."""
    norm: NormKind = LayerNorm()
    """The kind of norm."""
    placement: Placement = "pre"
    """Norms before each branch, after it, or one before both branches in parallel."""
    embedding: Embedding = Embedding()
    """From token ids to states."""
    head: Head = Head()
    """From states to logits."""
    init: InitKind = NormalInit()
    """How the weights are initialised."""
    dropout: Share = 0.0
    """Share of channels that are dropped in training."""
    encoder: Encoder | None = None
    """A second stack that reads the source. If left out: there is none."""
