"""A list of factors is no licence for one comparison to differ in several of them.

Each sly design was once planned without a mark. It is refused with its factors by name, and planned
where the arm differs in one of them, or where the design says why it means all.
"""

import re
from pathlib import Path

import pytest

from paribus.design.trials import entry_paths
from paribus.errors import ConfoundError, SpecError
from paribus.record import Mark

TOGETHER = "; the effect is of all of them together; judge arms that differ in one, or say why"
WITH = 'architecture.mask = "prefix"\n'  # one honest factor, beside which another is slipped in
# By name: the second factor's path, how an arm writes it, and the names that the refusal must have.
BESIDE_THE_MASK = {
    "twice the layers": ("architecture.n_layers", "architecture.n_layers = 4", "n_layers"),
    "four times the batch": ("training.n_sequences", "training.n_sequences = 16", "n_sequences"),
    "dropout": ("architecture.dropout", "architecture.dropout = 0.1", "dropout"),
    "schedule": ("training.schedule", 'training.schedule = "constant"', "schedule"),
    "weight decay": (
        "training.optimizer.decay",
        "training.optimizer.decay = 0.3",
        "optimizer.decay",
    ),
    "a rate that nobody tunes": (
        "training.optimizer.rate",
        "training.optimizer.rate = 0.03",
        "optimizer.rate",
    ),
    "tokenizer": (
        "corpus.tokenizer",
        'corpus.tokenizer = { kind = "bpe", n_vocab = 260 }',
        "corpus.tokenizer",
    ),
    "documents": (
        "corpus.sources",
        'corpus.sources = [{ kind = "translation", n_documents = 300, form = "text" }]',
        "corpus.sources.0.n_documents",
    ),
}
# By name: the factor, what the arm writes, and how many factors by which names.
AT_ONCE = {
    "three of a list": (
        ["architecture.norm", "architecture.positions", "training.optimizer"],
        'architecture.norm = { kind = "rms", eps = 1e-5 }\narchitecture.positions = "none"\n'
        "training.optimizer ="
        ' { kind = "muon", rate = 1e-2 }',
        "3 factors: norm, positions, optimizer",
    ),
    "five at once": (
        [
            "architecture.norm",
            "architecture.positions",
            "architecture.dropout",
            "training.optimizer",
            "training.schedule",
        ],
        'architecture.norm = { kind = "rms", eps = 1e-5 }\narchitecture.positions = "none"\n'
        'architecture.dropout = 0.1\ntraining.optimizer = { kind = "muon", rate = 1e-2 }\n'
        'training.schedule = { kind = "linear", floor = 0.1 }',
        "5 factors: norm, positions, dropout, optimizer, schedule",
    ),
    "one table of many fields": (
        ["architecture"],
        'architecture.norm = { kind = "rms", eps = 1e-5 }\narchitecture.positions = "none"',
        "2 factors: positions, norm",
    ),
    "two fields of one part": (
        ["architecture.feed_forward"],
        'architecture.feed_forward = { activation = "relu", gated = true }',
        "2 factors: feed_forward.activation, feed_forward.gated",
    ),
    "another kind, and a field that both kinds have": (
        ["architecture.norm"],
        'architecture.norm = { kind = "rms", eps = 0.1 }',
        "2 factors: norm, norm.eps",
    ),
    "an entry replaced, and one more": (
        ["corpus.sources"],
        'corpus.sources = [{ kind = "copy", form = "text" }, { kind = "sort", form = "text" }]',
        "6 factors: corpus.sources.0.n_documents, corpus.sources.0.min_length,"
        " corpus.sources.0.max_length, corpus.sources.0.kind, corpus.sources.0.n_symbols,"
        " corpus.sources.1 (sort, 50 % of the weight)",
    ),
}
# By name: the factor, what the arm writes (a kind, and after it what makes the fields equal that
# both kinds have), the factors beside the kind, and the values that the refusal names.
DEFAULTS_OF_TWO_KINDS = {
    "experts": (
        "architecture.feed_forward",
        '{ kind = "experts", n_experts = 4, n_active = 2, d_expert = 32',
        ', activation = "gelu_tanh", gated = false }',
        "feed_forward, feed_forward.activation, feed_forward.gated,"
        " size (2.24 × the parameters and 1.27 × the FLOPs)",
        'architecture.feed_forward.activation = "gelu_tanh" and'
        " architecture.feed_forward.gated = false in other",
    ),
    "optimizer": (
        "training.optimizer",
        '{ kind = "adafactor"',
        ", rate = 0.01, decay = 0.1 }",
        "optimizer, optimizer.decay",
        "training.optimizer.decay = 0.1 in other",
    ),
    "schedule": (
        "training.schedule",
        '{ kind = "linear"',
        ", floor = 0.1 }",
        "schedule, schedule.floor",
        "training.schedule.floor = 0.1 in other",
    ),
    "norm": (
        "architecture.norm",
        '{ kind = "rms"',
        ", eps = 1e-5 }",
        "norm, norm.eps",
        "architecture.norm.eps = 1e-05 in other",
    ),
}
ANYTHING = "match = 'nothing'\nbudget = 'tokens_read'\n"


def two_arms(factor: list[str], arm: str, more: str = "") -> str:
    return f"factor = {factor}\n{ANYTHING}{more}\n[arms.plain]\n[arms.other]\n{arm}\n"


@pytest.mark.parametrize("name", BESIDE_THE_MASK)
def test_a_second_factor_beside_the_mask_is_refused_unless_it_is_meant(
    plan_design, name: str
) -> None:
    path, written, factor = BESIDE_THE_MASK[name]
    factors = ["architecture.mask", path]
    said = re.escape(f"other against plain differs in 2 factors: mask, {factor}{TOGETHER}")
    with pytest.raises(ConfoundError, match=said):
        plan_design(two_arms(factors, WITH + written))
    (alone,) = plan_design(two_arms(factors, WITH)).judged
    assert (alone.kind, alone.factors) == ("simple", ("mask",))


@pytest.mark.parametrize("name", AT_ONCE)
def test_several_factors_at_once_are_named_and_refused(plan_design, name: str) -> None:
    factors, written, said = AT_ONCE[name]
    with pytest.raises(ConfoundError, match=re.escape(f"differs in {said}{TOGETHER}")):
        plan_design(two_arms(factors, written))


@pytest.mark.parametrize("name", DEFAULTS_OF_TWO_KINDS)
def test_what_two_kinds_have_by_default_counts_by_its_value(plan_design, name: str) -> None:
    path, kind, equal, factors, values = DEFAULTS_OF_TWO_KINDS[name]
    n_factors = factors.count(",") + 1
    said = f"differs in {n_factors} factors: {factors}{TOGETHER}"
    with pytest.raises(ConfoundError, match=re.escape(said)) as caught:
        plan_design(two_arms([path], f"{path} = {kind} }}"))
    assert f"; kinds that agree in what both have: {values}" in caught.value.problems[0]
    (one,) = plan_design(two_arms([path], f"{path} = {kind}{equal}")).judged
    assert one.factors == (factors.partition(",")[0],)


def test_a_rate_by_default_counts_where_nothing_tunes_it(plan_design) -> None:
    """AdamW steps at 1e-3 by default, and Adafactor at 1e-2 of each tensor."""
    design = """
    factor = "training.optimizer"
    {}
    [base.training]
    optimizer = {{ kind = "adamw", rate = 1e-3 }}
    [arms.plain]
    [arms.other]
    training.optimizer = {{ kind = "adafactor", decay = 0.1 }}
    """
    with pytest.raises(ConfoundError, match=r"2 factors: optimizer, optimizer\.rate"):
        plan_design(design.format(""))
    (one,) = plan_design(design.format("tune = { share = 1.0 }")).judged
    assert one.factors == ("optimizer",)


def test_what_is_meant_is_planned_with_its_reason(plan_design) -> None:
    factors, written, said = AT_ONCE["three of a list"]
    meant = 'compound = { other = "as it was published" }'
    (one,) = plan_design(two_arms(factors, written, meant)).judged
    assert (one.kind, one.reason) == ("compound", "as it was published")
    assert one.description == f"differs in {said}; the effect is of all of them together"


def test_an_arm_for_each_factor_is_the_honest_twin(plan_design) -> None:
    plan = plan_design(
        """
        factor = ["architecture.mask", "architecture.dropout"]
        comparisons = [["prefix", "plain"], ["prefix with dropout", "prefix"]]
        [arms.plain]
        [arms.prefix]
        architecture.mask = "prefix"
        [arms."prefix with dropout"]
        architecture.mask = "prefix"
        architecture.dropout = 0.1
        """
    )
    assert [one.description for one in plan.judged] == ["differs in mask", "differs in dropout"]


def test_crossed_pairs_are_refused(plan_design) -> None:
    """Each arm differs from the base in one factor, so the two differ from each other in two."""
    crossed = """
    factor = ["architecture.mask", "architecture.dropout"]
    comparisons = [["prefix", "dropout"]]
    [arms.plain]
    [arms.prefix]
    architecture.mask = "prefix"
    [arms.dropout]
    architecture.dropout = 0.1
    """
    with pytest.raises(ConfoundError, match="prefix against dropout differs in 2 factors: mask, "):
        plan_design(crossed)


def test_the_control_may_differ_in_anything_that_is_listed(plan_design) -> None:
    design = """
    factor = ["architecture.mask", "training.n_steps"]
    control = "broken"
    match = "nothing"
    {}
    [arms.plain]
    [arms.window]
    architecture.mask = "causal & window(5)"
    [arms.broken]
    architecture.mask = "causal & window(1)"
    training.n_steps = 3
    [base]
    objective = "causal"
    """
    (one,) = plan_design(design.format("")).judged
    assert (one.arm, one.kind) == ("window", "simple")
    judged_too = 'comparisons = [["window", "plain"], ["broken", "plain"]]'
    with pytest.raises(ConfoundError, match="broken against plain differs in 2 factors"):
        plan_design(design.format(judged_too))


def test_rates_that_are_tuned_alike_are_no_second_factor(plan_design) -> None:
    tuned = """
    factor = "training.optimizer"
    tune = { share = 1.0 }
    [arms.plain]
    [arms.other]
    training.optimizer.kind = "muon"
    """
    (one,) = plan_design(tuned).judged
    assert one.factors == ("optimizer",)
    untuned = tuned.replace("tune = { share = 1.0 }", "") + "training.optimizer.rate = 0.02"
    with pytest.raises(ConfoundError, match=r"2 factors: optimizer, optimizer\.rate"):
        plan_design(untuned)


def test_what_the_factor_forces_is_no_second_factor(plan_design) -> None:
    """Six heads need another number of key/value heads than four: none fits both but 2 and 1."""
    heads = """
    factor = ["architecture.attention.n_heads", "architecture.attention.n_kv_heads"]
    match = "nothing"
    budget = "tokens_read"
    [base.architecture]
    d_model = 48
    attention = {{ n_heads = 6, n_kv_heads = {} }}
    [arms.plain]
    [arms.other]
    architecture.attention = {{ n_heads = 4, n_kv_heads = {} }}
    """
    with pytest.raises(ConfoundError, match=r"differs in 2 factors: attention\.n_heads, "):
        plan_design(heads.format(3, 2))
    (one,) = plan_design(heads.format(2, 2)).judged
    assert one.factors == ("attention.n_heads",)


def test_a_stage_more_is_one_factor_whatever_it_holds(plan_design) -> None:
    plan = plan_design(
        """
        factor = ["stages.1", "stages.0.training.n_steps"]
        budget = "tokens_read"
        compound = { other = "as many tokens in one stage" }
        [[base.stages]]
        kind = "pretrain"
        [[base.stages]]
        kind = "adapt"
        objective = "causal"
        training = { n_steps = 6, warmup = 1 }
        [arms.plain]
        [arms.other]
        stages = { 0 = { training = { n_steps = 18 } }, 1 = false }
        """
    )
    (one,) = plan.judged
    assert one.factors == ("stages.1", "stages.0.training.n_steps")


def test_three_times_the_steps_are_a_second_factor(plan_design) -> None:
    design = """
    factor = ["architecture.mask", "training.n_steps"]
    [arms.plain]
    [arms.other]
    architecture.mask = "prefix"
    """
    with pytest.raises(ConfoundError, match="differs in 2 factors: mask, n_steps; the effect is"):
        plan_design(design + "training.n_steps = 36\n")
    (one,) = plan_design(design).judged
    assert one.factors == ("mask",)


def test_a_reason_needs_a_name_and_words_and_a_need(plan_design) -> None:
    design = two_arms(["architecture.mask"], WITH, 'compound = {{ "{}" = "{}" }}')
    with pytest.raises(SpecError, match="compound has 'others', which is neither an arm nor a"):
        plan_design(design.format("others", "why"))
    with pytest.raises(SpecError, match=r"compound\.other has no reason; say why"):
        plan_design(design.format("other", " "))
    assert plan_design(design.format("other", "it is meant so")).unused_reasons == ("other",)


LISTS = """
factor = "{}"
budget = "tokens_read"
[arms.plain]
{}
[arms.other]
{}
"""
TRANSLATED = '{ kind = "translation", n_documents = 400, form = "text"'
COPIED = ', { kind = "copy", n_documents = 60, form = "text"'
PARTS = '{ weight = 1, objective = "prefix" }, { weight = 2, objective = "causal" }'


def sources(*entries: str) -> str:
    return f"corpus.sources = [{''.join(entries)}]"


def components(*entries: str) -> str:
    return f'objective = {{ kind = "mixture", components = [{", ".join(entries)}] }}'


@pytest.mark.parametrize(
    ("factor", "plain", "other", "factors"),
    [
        (
            "corpus.sources",
            "",
            sources(TRANSLATED, "}", COPIED, ", weight = 3 }"),
            ("corpus.sources.1 (copy, 75 % of the weight)",),
        ),
        (
            "corpus.sources",
            "",
            sources(TRANSLATED, "}", COPIED, "}", COPIED, ", seed = 1 }"),
            (
                "corpus.sources.1 (copy, 33.3 % of the weight)",
                "corpus.sources.2 (copy, 33.3 % of the weight)",
            ),
        ),
        (
            "objective.components",
            components(PARTS),
            components(PARTS, '{ weight = 5, objective = "continuation" }'),
            ("objective.components.2 (continuation, 62.5 % of the weight)",),
        ),
        (
            "corpus.sources",
            sources(TRANSLATED, "}", COPIED, "}"),
            sources(TRANSLATED, ", weight = 4 }", COPIED, ", weight = 2 }"),
            ("corpus.sources.1.weight",),
        ),
        ("objective", "", components(PARTS), ("objective (causal, 66.7 % of the weight)",)),
        (
            "objective",
            "",
            components(PARTS, '{ objective = { kind = "spans", rate = 0.9 } }'),
            (
                "objective (causal, 50 % of the weight)",
                "objective.components.2 (spans, 25 % of the weight)",
                "objective.components.2.objective.rate",
            ),
        ),
        (
            "objective.components",
            components(PARTS),
            components(PARTS, '{ objective = { kind = "spans", rate = 0.9 }, mode = "R" }'),
            (
                "objective.components.2 (spans, 25 % of the weight)",
                "objective.components.2.mode",
                "objective.components.2.objective.rate",
            ),
        ),
        (
            "objective.components",
            components('{ objective = "causal" }'),
            components('{ objective = { kind = "prefix", least = 0.7, most = 0.75 } }'),
            ("objective.components.0.objective", "objective.components.0.objective.least"),
        ),
        (
            "objective.components",
            components('{ objective = "causal" }'),
            components('{ objective = "prefix" }'),
            ("objective.components.0.objective",),
        ),
        (
            "objective",
            'objective = { kind = "prefix", least = 0.7 }',
            components(
                '{ objective = "causal" }', '{ objective = { kind = "prefix", least = 0.7 } }'
            ),
            ("objective (causal, 50 % of the weight)",),
        ),
    ],
)
def test_each_entry_more_counts_and_weights_by_their_shares(
    plan_design, factor: str, plain: str, other: str, factors: tuple[str, ...]
) -> None:
    design = LISTS.format(factor, plain, other)
    if len(factors) > 1:
        with pytest.raises(ConfoundError, match=re.escape(f"factors: {', '.join(factors)};")):
            plan_design(design)
        design = 'compound = { other = "several at once are asked" }' + design
    (one,) = plan_design(design).judged
    assert one.factors == factors


def test_weights_that_are_the_same_shares_are_no_factor() -> None:
    written = [{"kind": "copy", "weight": 1.0}, {"kind": "sort", "weight": 3.0}]
    scaled = [{"kind": "copy", "weight": 2.0}, {"kind": "sort", "weight": 6.0}]
    assert entry_paths("corpus.sources", written, scaled) == []


def test_another_kind_of_a_source_is_named_as_one(plan_design) -> None:
    kind = 'corpus.sources = [{ kind = "copy", n_documents = 400, form = "text" }]'
    with pytest.raises(ConfoundError, match=r"factors: .*corpus\.sources\.0\.kind"):
        plan_design(LISTS.format("corpus.sources", "", kind))


EARLIER = """
factor = "stages.0.corpus.sources"
match = "nothing"
budget = "tokens_read"
primary.measure = { kind = "pairs", n_items = 4 }
[[base.stages]]
objective = "causal"
corpus = { sources = [{ kind = "sort", n_documents = 400, form = "text" }] }
[[base.stages]]
kind = "tune"
objective = "seq2seq"
corpus = { sources = [{ kind = "copy", n_documents = 400 }] }
training.length = 100
[arms.plain]
[arms.other]
stages.0.corpus.sources = [{ kind = "reverse", n_documents = 400, form = "text"%s }]
"""


def test_phrasings_that_one_kind_of_source_writes_count(plan_design) -> None:
    (one,) = plan_design(EARLIER % "").judged
    assert one.factors == ("stages.0.corpus.sources.0.kind",)
    said = (
        r"2 factors: stages\.0\.corpus\.sources\.0\.kind, stages\.0\.corpus\.sources\.0\.phrasings;"
    )
    with pytest.raises(ConfoundError, match=said):
        plan_design(EARLIER % ', phrasings = ["turn {source} round: "]')


OWN_TOKENIZERS = """
factor = ["corpus.valid", "corpus.sources"]
match = "nothing"
budget = "tokens_read"
[base.corpus]
sources = [{ kind = "copy", n_documents = 400, form = "text" }]
tokenizer = { kind = "bpe", n_vocab = 300 }
[arms.plain]
[arms.other]
corpus.valid = 0.3
"""


def test_a_tokenizer_that_each_arm_trains_on_its_own_text_is_a_second_factor(plan_design) -> None:
    said = (
        "other against plain differs in 2 factors: corpus.valid, corpus.tokenizer; .*"
        " each arm trains its own on its own text, and they are not the same; one tokenizer for"
        r' both: corpus.tokenizer = { kind = "file", path = "…/tokenizer.json" }'
    )
    with pytest.raises(ConfoundError, match=said):
        plan_design(OWN_TOKENIZERS)
    meant = 'compound = { other = "a text and its tokenizer" }\n'
    plan = plan_design(meant + OWN_TOKENIZERS)
    (line,) = [line for line in plan.control_lines if line.path == "corpus.tokenizer.kind"]
    assert line.mark == Mark.FACTOR
    assert line.note == "each arm trains its own on its own text, and they are not the same"


def test_one_tokenizer_for_two_texts_is_no_factor(plan_design, tmp_path: Path) -> None:
    """From one file, by bytes, or trained on the same documents with other weights."""
    sources = 'sources = [{ kind = "translation", n_documents = 400, form = "text" }, %s]'
    more = '{ kind = "copy", n_documents = 400, form = "text", weight = 2.0 }'
    weighted = OWN_TOKENIZERS.replace(
        'sources = [{ kind = "copy", n_documents = 400, form = "text" }]',
        sources % more.replace("2.0", "1.0"),
    )
    weighted = weighted.partition("[arms.other]")[0] + f"[arms.other]\ncorpus.{sources % more}"
    plan = plan_design(weighted)
    (one,) = plan.judged
    assert one.factors == ("corpus.sources.1.weight",)
    file = tmp_path / "tokenizer.json"
    file.write_text(plan.arms[0].dataset.tokenizer.json)
    for table in ('kind = "bytes"', f'kind = "file", path = "{file}"'):
        (one,) = plan_design(OWN_TOKENIZERS.replace('kind = "bpe", n_vocab = 300', table)).judged
        assert one.factors == ("corpus.valid",)
