"""What an added encoder or an added stage holds beside being there counts, and so does its size.

As it comes by default, such a table is one factor. A design that hides the source from an encoder,
or trains the added stage otherwise than the stage that both arms have, says so or is refused.
"""

import re

import pytest

from paribus.errors import ConfoundError, SpecError
from paribus.record import Mark

TOGETHER = "; the effect is of all of them together"
ENCODER = """
factor = "architecture.encoder"
match = "nothing"
budget = "tokens_read"
allow = {{ "cut contexts" = "windows are asked about" }}
[arms.plain]
[arms.other]
architecture.encoder = {}
"""
STAGE = """
factor = "stages.1"
match = "nothing"
allow = {{ tokens_read = "what the stage adds is asked" }}
{}
[[base.stages]]
kind = "pretrain"
[[base.stages]]
kind = "adapt"
objective = "causal"
architecture = {}
training = {}
[arms.plain]
stages.1 = false
[arms.other]
"""


@pytest.mark.parametrize(
    ("encoder", "factors"),
    [
        ('{ mask = "causal & window(3)" }', "encoder, encoder.mask"),
        ("{ shared = true }", "encoder, encoder.shared"),
        ('{ cross_form = "merged" }', "encoder, encoder.cross_form"),
    ],
)
def test_what_an_added_encoder_changes_counts(plan_design, encoder: str, factors: str) -> None:
    with pytest.raises(ConfoundError, match=f"differs in 2 factors: {re.escape(factors)};"):
        plan_design(ENCODER.format(encoder))


@pytest.mark.parametrize(
    "encoder",
    ["{}", '{ mask = "causal" }', '{ cross_positions = "rotary" }', "{ n_layers = 2 }"],
)
def test_an_encoder_as_it_comes_or_like_the_decoder_is_one_factor(
    plan_design, encoder: str
) -> None:
    (one,) = plan_design(ENCODER.format(encoder)).judged
    assert one.factors == ("encoder",)


def test_an_added_encoder_of_many_layers_is_of_another_size(plan_design) -> None:
    said = (
        r"3 factors: encoder, encoder\.n_layers, size \(7\.32 × the parameters and 3\.25 × the"
        r" FLOPs\); .*; sizes are"
    )
    with pytest.raises(
        ConfoundError, match=said + r" near with architecture\.encoder\.n_layers = "
    ):
        plan_design(ENCODER.format("{ n_layers = 12 }"))


def test_a_source_is_hidden_in_the_control_alone(plan_design) -> None:
    hidden = '{ cross = "nothing" }'
    said = (
        "arms.other: architecture.encoder.cross is 'nothing', which hides the source, and the arm"
    )
    with pytest.raises(SpecError, match=re.escape(said)):
        plan_design(ENCODER.format(hidden))
    beside = f"""
    [arms.blind]
    architecture.encoder = {hidden}
    """
    (one,) = plan_design('control = "blind"\n' + ENCODER.format("{}") + beside).judged
    assert one.arm == "other"


@pytest.mark.parametrize(
    ("architecture", "training", "factors"),
    [
        ('{ mask = "causal & window(5)" }', "{}", "stages.1.architecture.mask"),
        ("{ dropout = 0.3 }", "{}", "stages.1.architecture.dropout"),
        ("{}", "{ optimizer = { rate = 0.003 } }", "stages.1.training.optimizer.rate"),
        (
            "{}",
            '{ optimizer = { kind = "adafactor", rate = 1e-2, decay = 0.1 } }',
            "stages.1.training.optimizer",
        ),
        ("{}", '{ schedule = "constant" }', "stages.1.training.schedule"),
        ("{}", "{ z_loss = 50.0 }", "stages.1.training.z_loss"),
        ("{}", "{ n_sequences = 1 }", "stages.1.training.n_sequences"),
        ("{}", "{ length = 28 }", "stages.1.training.length"),
        ("{}", "{ warmup = 12 }", "stages.1.training.warmup"),
        ("{}", "{ warmup = 0 }", "stages.1.training.warmup"),
    ],
)
def test_what_an_added_stage_does_otherwise_counts(
    plan_design, architecture: str, training: str, factors: str
) -> None:
    said = re.escape(f"differs in 2 factors: stages.1, {factors}{TOGETHER}")
    with pytest.raises(ConfoundError, match=said):
        plan_design(STAGE.format("", architecture, training))
    meant = 'compound = { other = "fine-tuning has a recipe of its own" }'
    (one,) = plan_design(STAGE.format(meant, architecture, training)).judged
    assert one.reason == "fine-tuning has a recipe of its own"


def test_an_added_stage_with_the_recipe_of_the_first_is_one_factor(plan_design) -> None:
    (one,) = plan_design(STAGE.format("", "{}", "{ n_steps = 6, warmup = 1 }")).judged
    assert one.factors == ("stages.1",)


def test_an_added_stage_without_the_usual_recipe_is_told_which_that_is(plan_design) -> None:
    said = (
        "a stage with the usual recipe has stages.1.training.n_sequences = 4 in other and"
        " stages.1.training.warmup = 1 in other"
    )
    with pytest.raises(ConfoundError, match=re.escape(said)):
        plan_design(STAGE.format("", "{}", "{ n_steps = 6, n_sequences = 2 }"))


@pytest.mark.parametrize(
    ("stage", "factor"),
    [
        ("corpus.valid = 0.4", "stages.1.corpus.valid"),
        ('objective = { kind = "prefix", most = 0.3 }', "stages.1.objective.most"),
    ],
)
def test_what_an_added_stage_does_with_its_text_and_objective_counts(
    plan_design, stage: str, factor: str
) -> None:
    design = STAGE.format("", "{}", "{}") + f"stages.1.{stage}\n"
    with pytest.raises(ConfoundError, match=re.escape(f"2 factors: stages.1, {factor}{TOGETHER}")):
        plan_design(design)


def test_rates_of_a_tuned_stage_are_said_to_be_the_middle_of_the_sweep(plan_design) -> None:
    factors = 'factor = ["stages.1", "stages.0.training.optimizer.rate"]\ntune = {{ share = 1.0 }}'
    design = STAGE.replace('factor = "stages.1"', factors)
    design += "stages.0.training.optimizer.rate = 1e-7\n"
    for one in plan_design(design.format("", "{}", "{}")).control_lines:
        if one.path == "stages.0.training.optimizer.rate":
            said = "as written, and not used but for plain's, around which every arm is swept: 5"
            assert (one.mark, one.note[: len(said)]) == (Mark.TUNED, said)
        if one.path == "stages.1.training.optimizer.rate":
            assert one.note.startswith("5 rates a factor 2 apart")


def test_an_added_stage_is_compared_with_the_other_arms_of_its_kind(plan_design) -> None:
    """Fine-tuning has a batch of its own in both arms; what one adds before it does not."""
    design = """
    factor = ["stages.1", "stages.2"]
    compound = {{ plain = "the stage between is asked" }}
    allow = {{ tokens_read = "what the stage adds is asked" }}
    [[base.stages]]
    kind = "pretrain"
    [[base.stages]]
    kind = "adapt"
    objective = "causal"
    [[base.stages]]
    kind = "tune"
    training = {{ n_sequences = {} }}
    [arms.plain]
    stages.1 = {{ kind = "tune", objective = "prefix", training.n_sequences = 2 }}
    stages.2 = false
    [arms.other]
    """
    counted = {}
    for n_sequences in (2, 4):
        (one,) = plan_design('baseline = "other"' + design.format(n_sequences)).judged
        counted[n_sequences] = "stages.2.training.n_sequences" in one.factors
    assert counted == {2: False, 4: True}


PAIRS = """
factor = FACTOR
allow = { tokens_read = "what the stage adds is asked" }
primary = { measure = { kind = "pairs", n_items = 4 }, margin = 0.1 }
[base]
objective = "seq2seq"
corpus.sources = [{ kind = "copy", n_documents = 400, min_length = 4, max_length = 8 }]
[[base.stages]]
kind = "pretrain"
[[base.stages]]
kind = "adapt"
[arms.plain]
stages.1 = false
[arms.other]
stages.1.corpus.shuffled_targets = true
"""


def test_wrong_targets_are_for_the_control_or_named(plan_design) -> None:
    said = (
        "arms.other: stages.1.corpus.shuffled_targets is true, which teaches wrong targets, and the"
        ' arm is not the control; leave it out, write control = "other", or name'
        " 'stages.1.corpus.shuffled_targets' in factor"
    )
    with pytest.raises(SpecError, match=re.escape(said)):
        plan_design(PAIRS.replace("FACTOR", '"stages.1"'))
    named = PAIRS.replace("FACTOR", '["stages.1", "stages.1.corpus.shuffled_targets"]')
    with pytest.raises(ConfoundError, match=r"2 factors: stages\.1, stages\.1\.corpus\.shuffled"):
        plan_design(named)
    control = """
    [arms.honest]
    [arms.control]
    stages.1.corpus.shuffled_targets = true
    """
    own = PAIRS.replace("stages.1.corpus.shuffled_targets = true\n", "") + control
    plan = plan_design(
        'control = "control"\n'
        + own.replace("FACTOR", '["stages.1", "stages.1.corpus.shuffled_targets"]')
    )
    assert [one.factors for one in plan.judged] == [("stages.1",), ("stages.1",)]


SIZES = """
factor = "{}"
match = "nothing"
budget = "tokens_read"
[arms.plain]
[arms.other]
{}
"""
EXPERTS = (
    'architecture.feed_forward = {{ kind = "experts", n_experts = {}, n_active = {}, d_expert = {},'
    ' activation = "gelu_tanh", gated = false }}'
)
LATENT = (
    'architecture.attention = {{ kind = "latent", n_heads = 2, d_latent = 8, d_content = 4,'
    " d_rotary = 4, d_value = {} }}"
)


def test_experts_of_many_times_the_work_are_of_another_size(plan_design) -> None:
    many = SIZES.format("architecture.feed_forward", EXPERTS.format(64, 32, 200))
    with pytest.raises(
        ConfoundError, match=r"2 factors: feed_forward, size .*; sizes are near with"
    ):
        plan_design(many)
    honest = SIZES.format("architecture.feed_forward", EXPERTS.format(8, 2, 32))
    (one,) = plan_design(honest).judged
    assert one.factors == ("feed_forward",)


WIDTHS = """
factor = "architecture.feed_forward"
match = "nothing"
budget = "tokens_read"
[arms.plain]
architecture.feed_forward = { d_ff = DENSE, activation = "silu", gated = true, bias = false }
[arms.other]
architecture.feed_forward = { kind = "experts", n_experts = 4, n_active = 1EXPERTS }
"""


@pytest.mark.parametrize(
    ("dense", "experts"), [("48", ", d_expert = 48"), ("64", ""), ("96", ", d_expert = 96")]
)
def test_a_written_width_is_no_factor_where_every_layer_has_experts(
    plan_design, dense: str, experts: str
) -> None:
    (one,) = plan_design(WIDTHS.replace("DENSE", dense).replace("EXPERTS", experts)).judged
    assert one.factors == ("feed_forward",)


@pytest.mark.parametrize(
    ("dense", "experts", "said"),
    [
        (
            "16",
            "",
            r"feed_forward, size \(.* near with .*feed_forward\.d_expert = \d+ in",
        ),
        ("16", ", d_expert = 200", r"feed_forward, size \("),
        ("48", ", d_expert = 48, n_dense_layers = 1, d_ff = 200", r"feed_forward\.d_ff, "),
        ("48", ", d_expert = 48, every = 2", r"feed_forward\.d_ff, feed_forward\.every"),
    ],
)
def test_a_width_counts_by_the_size_of_experts_and_in_layers_that_have_none(
    plan_design, dense: str, experts: str, said: str
) -> None:
    with pytest.raises(ConfoundError, match=said):
        plan_design(WIDTHS.replace("DENSE", dense).replace("EXPERTS", experts))


def test_a_cure_for_a_size_names_what_changes(plan_design) -> None:
    """Not the values that are written already."""
    many = SIZES.format("architecture.feed_forward", EXPERTS.format(64, 32, 200))
    with pytest.raises(ConfoundError) as refusal:
        plan_design(many)
    cure = str(refusal.value).partition("sizes are near with ")[2]
    assert "architecture.feed_forward." in cure
    assert "n_groups = 1" not in cure
    assert "every = 1" not in cure


def test_the_mask_of_a_prefix_decoder_follows_from_an_encoder(plan_design) -> None:
    """Both read the input in both directions, and the target from left to right."""
    prefix = ENCODER.replace("[arms.plain]", '[arms.plain]\narchitecture.mask = "MASK"')
    design = prefix.format("ENCODER")
    for factor in ('"architecture.encoder"', '["architecture.encoder", "architecture.mask"]'):
        named = design.replace('factor = "architecture.encoder"', f"factor = {factor}")
        honest = named.replace("MASK", "prefix").replace("ENCODER", "{}")
        plan = plan_design(honest)
        (one,) = plan.judged
        assert one.factors == ("encoder",)
        assert not any("reading its input" in detail for detail in one.details)
        (line,) = [line for line in plan.control_lines if line.path == "architecture.mask"]
        assert line.mark == Mark.FOLLOWS
    for mask, encoder in (
        ("prefix & (window(8) | reverse)", "{}"),
        ("prefix", '{ mask = "causal" }'),
        ("full", "{}"),
    ):
        sly = named.replace("MASK", mask).replace("ENCODER", encoder)
        with pytest.raises((ConfoundError, SpecError), match="mask"):
            plan_design(sly)


def test_an_encoder_that_changes_the_direction_says_so_beside_the_pair(plan_design) -> None:
    said = "other reading its input in both directions and plain from left to right"
    (one,) = plan_design(ENCODER.format("{}")).judged
    assert said in one.details
    (one,) = plan_design(ENCODER.format('{ mask = "causal" }')).judged
    assert said not in one.details


def test_latents_of_many_channels_are_of_another_size(plan_design) -> None:
    with pytest.raises(ConfoundError, match=r"attention\.d_value = \d+ in other"):
        plan_design(SIZES.format("architecture.attention", LATENT.format(640)))
    (one,) = plan_design(SIZES.format("architecture.attention", LATENT.format(8))).judged
    assert one.factors == ("attention",)


def test_a_factor_that_is_a_size_is_one_factor(plan_design) -> None:
    deeper = "architecture.n_layers = 6"
    (one,) = plan_design(SIZES.format("architecture.n_layers", deeper)).judged
    assert one.factors == ("n_layers",)


# By name: the factor, what the baseline writes, what the other arm writes as it comes, what it adds
# beyond that, and the fields that count then.
OWN_KINDS = {
    "router": (
        "architecture.feed_forward",
        "{}",
        '{ kind = "experts", n_experts = 4, n_active = 1, activation = "gelu_tanh", gated = false',
        ", router = { scale = 0.0001 }",
        "feed_forward.router.scale",
    ),
    "balance": (
        "architecture.feed_forward",
        "{}",
        '{ kind = "experts", n_experts = 4, n_active = 1, activation = "gelu_tanh", gated = false',
        ', balance = { kind = "batch", weight = 1000.0 }',
        "feed_forward.balance",
    ),
    "positions": (
        "architecture.positions",
        '"none"',
        '{ kind = "rotary"',
        ", theta = 1.0001",
        "positions.theta",
    ),
    "buckets": (
        "architecture.positions",
        '"none"',
        '{ kind = "relative_bias"',
        ", n_buckets = 4",
        "positions.n_buckets",
    ),
    "init": (
        "architecture.init",
        "{}",
        '{ kind = "fan_in"',
        ", gain = 50.0",
        "init.gain",
    ),
    "optimizer": (
        "training.optimizer",
        "{}",
        '{ kind = "muon", rate = 0.01',
        ", momentum = 0.0",
        "optimizer.momentum",
    ),
    "schedule": (
        "training.schedule",
        '"constant"',
        '{ kind = "trapezoid"',
        ", down = 1.0",
        "schedule.down",
    ),
    "objective": (
        "objective",
        '"prefix"',
        '{ kind = "continuation"',
        ", rate = 0.1",
        "objective.rate",
    ),
}
OWN_DESIGN = """
factor = {}
match = "nothing"
budget = "tokens_read"
allow = {{ "training_flops in all" = "objectives score other shares" }}
{}
[arms.plain]
{} = {}
[arms.other]
{} = {}
"""


def _own_design(name: str, *, is_sly: bool, factor: str = "", more: str = "") -> str:
    path, plain, kind, added, _ = OWN_KINDS[name]
    other = f"{kind}{added if is_sly else ''} }}"
    return OWN_DESIGN.format(factor or f'"{path}"', more, path, plain, path, other)


@pytest.mark.parametrize("name", OWN_KINDS)
def test_what_a_kind_has_of_its_own_counts_where_it_is_not_as_it_comes(
    plan_design, name: str
) -> None:
    path, _, _, _, fields = OWN_KINDS[name]
    short = path.removeprefix("architecture.").removeprefix("training.")
    said = re.escape(f"{fields.count(',') + 2} factors: {short}, {fields}{TOGETHER}")
    with pytest.raises(ConfoundError, match=said + r".*; or kinds as they come: .* in other"):
        plan_design(_own_design(name, is_sly=True))
    (one,) = plan_design(_own_design(name, is_sly=False)).judged
    assert one.factors == (short,)


def test_a_table_that_is_named_in_the_factor_does_not_free_what_is_in_it(plan_design) -> None:
    """The balance and its weight are one choice, but a weight beside a balance that is meant is
    another.
    """
    named = '["architecture.feed_forward", "architecture.feed_forward.balance"]'
    with pytest.raises(
        ConfoundError, match=r"factors: feed_forward, feed_forward\.balance\.weight;"
    ):
        plan_design(_own_design("balance", is_sly=True, factor=named))
    usual = _own_design("balance", is_sly=True, factor=named).replace(
        "weight = 1000.0", "weight = 0.01"
    )
    (one,) = plan_design(usual).judged
    assert one.factors == ("feed_forward",)
    assert 'feed_forward.balance = "batch" in other' in one.details


SCHEDULES = """
factor = "training.schedule"
[arms.plain]
training.schedule = { kind = "cosine", floor = FLOOR }
[arms.other]
training.schedule = "KIND"
"""


@pytest.mark.parametrize("kind", ["trapezoid", "constant"])
def test_a_cosine_that_comes_down_to_nothing_is_one_factor(plan_design, kind: str) -> None:
    schedules = SCHEDULES.replace("KIND", kind)
    for floor in ("0.0", "0.1"):
        (one,) = plan_design(schedules.replace("FLOOR", floor)).judged
        assert one.factors == ("schedule",)
    with pytest.raises(
        ConfoundError, match=r"factors: schedule, schedule\.floor; .* besides: \"train"
    ):
        plan_design(schedules.replace("FLOOR", "0.9"))


def test_rates_that_nobody_tunes_are_told_that_a_sweep_finds_them(plan_design) -> None:
    design = """
    factor = "training.optimizer"
    [arms.plain]
    [arms.other]
    training.optimizer = { kind = "adafactor", decay = 0.1, rate = RATE }
    """
    said = r"optimizer\.rate; .*; rates that a sweep finds for each arm: leave out tune = false"
    with pytest.raises(ConfoundError, match=said):
        plan_design(design.replace("RATE", "0.5"))
    (one,) = plan_design(design.replace("RATE", "0.01")).judged
    assert one.factors == ("optimizer",)


def test_a_default_that_a_stage_refuses_is_not_proposed(plan_design) -> None:
    """Texts in the form of pairs come by default, and a stage of turns takes conversations."""
    design = """
    factor = "stages.1"
    allow = { "tokens_read in all" = "what the stage reads is asked" }
    [[base.stages]]
    kind = "pretrain"
    [arms.plain]
    [arms.plain.stages.1]
    kind = "adapt"
    corpus.sources = ["python-docs"]
    training = { n_steps = 6, warmup = 1 }
    [arms.other]
    [arms.other.stages.1]
    kind = "instruct"
    objective = "seq2seq"
    corpus.sources = [{ kind = "copy", n_documents = 400, form = "conversations" }]
    training = { n_steps = 6, warmup = 1 }
    """
    with pytest.raises(ConfoundError) as refusal:
        plan_design(design)
    said = str(refusal.value)
    assert '"stages.1.corpus.sources.0.form"' in said
    assert "kinds as they come: stages.1.corpus.sources.0.n_documents = 100000 in other" in said
    assert 'form = "pairs"' not in said


def test_a_field_of_a_kind_counts_in_the_baseline_too(plan_design) -> None:
    """Whichever arm has it, and whoever wrote it: a preset, the base or the arm."""
    attention = """
    factor = "architecture.attention"
    match = "nothing"
    budget = "tokens_read"
    [arms.plain]
    architecture.attention = { n_heads = 2, bias = false, score_scale = 0.0001 }
    [arms.other]
    architecture.attention = { kind = "latent", n_heads = 2, d_latent = 16, d_content = 4, \
d_rotary = 4, d_value = 8 }
    """
    said = (
        r"attention, attention\.score_scale; .*name that field in factor besides:"
        r' "architecture\.attention\.score_scale"; or kinds as they come: no'
        r" architecture\.attention\.score_scale in plain"
    )
    with pytest.raises(ConfoundError, match=said):
        plan_design(attention)
    (one,) = plan_design(attention.replace(", score_scale = 0.0001", "")).judged
    assert one.factors == ("attention",)


def test_a_field_that_the_factor_names_is_shown_and_does_not_count(plan_design) -> None:
    named = '["architecture.positions", "architecture.positions.theta"]'
    (one,) = plan_design(_own_design("positions", is_sly=True, factor=named)).judged
    assert (one.kind, one.factors) == ("simple", ("positions",))
    assert one.description == "differs in positions; with positions.theta = 1.0001 in other"


def test_what_the_preset_of_an_arm_says_is_shown_and_does_not_count(plan_design) -> None:
    (one,) = plan_design(_own_design("router", is_sly=False)).judged
    assert "feed_forward.bias = true in plain" in one.details
    attention = """
    factor = "architecture.feed_forward"
    match = "nothing"
    budget = "tokens_read"
    base.architecture = { preset = "llama", n_layers = 2, d_model = 32, \
attention = { n_heads = 2, n_kv_heads = 2 } }
    [arms.plain]
    architecture.feed_forward = { d_ff = 64BIAS }
    [arms.other]
    architecture.feed_forward = { kind = "experts", n_experts = 4, n_active = 1, d_expert = 64 }
    """
    with pytest.raises(ConfoundError, match=r"feed_forward, .*feed_forward\.bias[,;]"):
        plan_design(attention.replace("BIAS", ", bias = true"))


def test_what_must_be_written_is_shown_beside_the_pair(plan_design) -> None:
    (one,) = plan_design(_own_design("router", is_sly=False)).judged
    shown = ["feed_forward.n_experts = 4 in other", "feed_forward.n_active = 1 in other"]
    assert list(one.details[:2]) == shown
    assert "feed_forward.bias = true in plain" in one.details
    assert any(detail.endswith("× the FLOPs") for detail in one.details)


def test_the_sizes_of_a_pair_of_a_contrast_are_shown(plan_design) -> None:
    gated = """
    factor = "architecture.feed_forward.gated"
    match = "nothing"
    budget = "tokens_read"
    contrasts = { gate = { other = 1, plain = -1 } }
    [arms.plain]
    [arms.other]
    architecture.feed_forward.gated = true
    """
    (one,) = plan_design(gated).judged
    said = "1.33 × the parameters and 1.25 × the FLOPs of plain"
    assert one.description == f"differs in feed_forward.gated; with {said}"
