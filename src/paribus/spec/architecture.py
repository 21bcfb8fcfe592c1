"""What a transformer is: frozen values, closed unions of small types, nothing read that is not obeyed.

A field left at None follows from the others when the spec is resolved; every other default is the value itself.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf, PlainSerializer

from paribus.errors import SpecError
from paribus.masks import Causal, Full, Rule, parse


class Spec(BaseModel):
    """The base of all specs: frozen, strict, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)


def _read_mask(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return parse(given)
    except SpecError as fault:
        raise ValueError(str(fault)) from fault


def read_kind(given: Any) -> Any:
    """`positions = "rotary"` is short for `positions = { kind = "rotary" }`."""
    return {"kind": given} if isinstance(given, str) else given


LARGEST = 10_000_000  # of any size; beyond it, a slip of the finger
Count = Annotated[int, Field(ge=1, le=LARGEST)]
Few = Annotated[int, Field(ge=0, le=LARGEST)]
Layers = Annotated[int, Field(ge=1, le=4096)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False), AfterValidator(abs)]  # -0.0 is 0
Mask = Annotated[InstanceOf[Rule], BeforeValidator(_read_mask), PlainSerializer(str, return_type=str)]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
Placement = Literal["pre", "post", "parallel"]
Scale = Positive | Literal["sqrt_d_model", "rsqrt_d_model"]


class MultiHead(Spec):
    """Multi-, grouped- (n_kv_heads < n_heads) or multi-query (n_kv_heads = 1) attention."""

    kind: Literal["multi_head"] = "multi_head"
    n_heads: Count
    n_kv_heads: Count | None = None  # None: n_heads
    d_head: Count | None = None  # None: d_model / n_heads
    bias: bool = False
    qk_norm: bool = False
    score_scale: Positive | None = None  # None: 1/√d_head


class Latent(Spec):
    """Latent attention of DeepSeek-V2/V3 (arXiv 2412.19437, 2.1.1): keys and values from one small latent.

    A head's query and key have d_content + d_rotary channels; the rotary ones of the key serve all heads.
    """

    kind: Literal["latent"] = "latent"
    n_heads: Count
    d_latent: Count
    d_query_latent: Count | None = None  # None is itself a choice: queries straight from the model width
    d_content: Count
    d_rotary: Few
    d_value: Count


class Dense(Spec):
    """Two matrices and a non-linearity, or three with a gate (SwiGLU = gated silu, GEGLU = gated gelu)."""

    kind: Literal["dense"] = "dense"
    d_ff: Count | None = None  # None: 4 d_model
    activation: Activation = "gelu"
    gated: bool = False
    bias: bool = False


class NoBalance(Spec):
    kind: Literal["none"] = "none"


class SequenceBalance(Spec):
    """DeepSeek-V3's loss over each sequence: weight · N/K · Σ (share of choices) · (mean normalised score)."""

    kind: Literal["sequence"] = "sequence"
    weight: Positive = 1e-4


class BatchBalance(Spec):
    """Switch's loss over the whole batch: weight · N · Σ (share of tokens) · (mean probability)."""

    kind: Literal["batch"] = "batch"
    weight: Positive = 1e-2


class Router(Spec):
    """How a token picks its experts: the K best of score + selection bias, gates from the scores alone."""

    scores: Literal["softmax", "sigmoid"] = "softmax"
    normalise: bool = True  # gates of the chosen sum to 1
    scale: Positive = 1.0  # gates are multiplied by this
    n_groups: Count = 1
    n_active_groups: Count = 1  # choose only within the best groups, judged by their two best experts
    bias_rate: Positive | None = None  # selection bias moved by ± this after each step; None: no bias


class Experts(Spec):
    """Routed experts beside optional shared ones; nothing is dropped."""

    kind: Literal["experts"] = "experts"
    n_experts: Count
    n_active: Count
    n_shared: Few = 0
    d_expert: Count | None = None  # None: 4 d_model
    activation: Activation = "silu"
    gated: bool = True
    router: Router = Router()
    balance: Annotated[
        NoBalance | SequenceBalance | BatchBalance, Field(discriminator="kind"), BeforeValidator(read_kind)
    ] = NoBalance()
    n_dense_layers: Few = 0  # the first layers are dense
    every: Count = 1  # of the others, each `every`-th has experts
    d_ff: Count | None = None  # width of the dense layers; None: 4 d_model


class NoPositions(Spec):
    kind: Literal["none"] = "none"


class Learned(Spec):
    """A table of max_length rows; the first `offset` rows are never read (BART has 2)."""

    kind: Literal["learned"] = "learned"
    offset: Few = 0


class Sinusoidal(Spec):
    """Fixed sines and cosines of Vaswani et al. 2017, interleaved."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    theta: Positive = 10000.0


class Rotary(Spec):
    """Queries and keys turned by their position (arXiv 2104.09864); channel i pairs with i + d/2."""

    kind: Literal["rotary"] = "rotary"
    theta: Positive = 10000.0


class RelativeBias(Spec):
    """T5's learned bias by bucketed distance, one table for all layers of a stack."""

    kind: Literal["relative_bias"] = "relative_bias"
    n_buckets: Annotated[int, Field(ge=4, multiple_of=4)] = 32
    max_distance: Annotated[int, Field(ge=2)] = 128


class Alibi(Spec):
    """A penalty linear in distance, a slope per head (arXiv 2108.12409)."""

    kind: Literal["alibi"] = "alibi"


class LayerNorm(Spec):
    kind: Literal["layer"] = "layer"
    eps: Positive = 1e-5
    bias: bool = True


class RMSNorm(Spec):
    kind: Literal["rms"] = "rms"
    eps: Positive = 1e-6


class Embedding(Spec):
    scale: Scale = 1.0
    norm: bool = False
    n_segments: Few = 0  # BERT's sentence A / sentence B


class Head(Spec):
    tied: bool = True
    bias: bool = False
    scale: Scale = 1.0
    transform: Activation | None = None  # BERT: a dense layer, this activation and a norm before the words


class Normal(Spec):
    """Every matrix from N(0, std); with `residual`, those that write to the residual from N(0, std/√(2 n_layers))."""

    kind: Literal["normal"] = "normal"
    std: Positive = 0.02
    residual: bool = False


class FanIn(Spec):
    """Every matrix from N(0, gain/√(inputs)), tables from N(0, gain), a relative bias from N(0, gain/√d_model).

    Queries make up for a score scale other than 1/√d_head, so that scores start at one size: T5's own start.
    """

    kind: Literal["fan_in"] = "fan_in"
    gain: Positive = 1.0


class Encoder(Spec):
    """A second stack that reads the source; its output is what the main stack cross-attends to."""

    n_layers: Layers
    mask: Mask = Full()
    shared: bool = False  # its blocks are the main stack's own, without the cross-attention


AttentionKind = Annotated[MultiHead | Latent, Field(discriminator="kind"), BeforeValidator(read_kind)]
FeedForwardKind = Annotated[Dense | Experts, Field(discriminator="kind"), BeforeValidator(read_kind)]
PositionsKind = Annotated[
    NoPositions | Learned | Sinusoidal | Rotary | RelativeBias | Alibi,
    Field(discriminator="kind"),
    BeforeValidator(read_kind),
]
NormKind = Annotated[LayerNorm | RMSNorm, Field(discriminator="kind"), BeforeValidator(read_kind)]
StartKind = Annotated[Normal | FanIn, Field(discriminator="kind"), BeforeValidator(read_kind)]


class Architecture(Spec):
    """One transformer: a stack of blocks under a mask, with an encoder beside it or none."""

    n_vocab: Count
    max_length: Count
    d_model: Count
    n_layers: Layers
    mask: Mask = Causal()
    attention: AttentionKind
    feed_forward: FeedForwardKind = Dense()
    positions: PositionsKind = NoPositions()
    norm: NormKind = LayerNorm()
    placement: Placement = "pre"
    embedding: Embedding = Embedding()
    head: Head = Head()
    start: StartKind = Normal()
    dropout: Share = 0.0
    encoder: Encoder | None = None
