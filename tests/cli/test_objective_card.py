"""What an objective asks, shown by an example; what may be asked of whom."""

import json

import pytest

import paribus as pb
from paribus.cli.terminal.objective_card import shorten_refusal
from paribus.cli.terminal.objective_example import PAIR, TEXT, objective_examples, preset_refusals
from paribus.errors import SpecError
from paribus.objectives import require_permitted
from paribus.objectives.problem_layout import PREFIX_DESCRIPTIONS, PROBLEM_LAYOUTS
from paribus.spec import load, presets, resolve
from paribus.spec.objectives import OBJECTIVES_BY_KIND, UL2_COMPONENTS, MaskedLM, Mixture

WORDS = [*TEXT.split(), "‹end›"]


def test_no_preset_is_called_like_an_objective():
    assert not set(presets()) & {*OBJECTIVES_BY_KIND, Mixture.model_fields["kind"].default}
    # labels and tags have a head of some width, which a name alone does not say
    assert set(OBJECTIVES_BY_KIND) == {*PROBLEM_LAYOUTS, "ul2"} - {"labels", "tags"}


@pytest.mark.parametrize("kind", OBJECTIVES_BY_KIND)
def test_every_objective_is_shown(ask, kind):
    answer = ask("show", kind)
    assert answer.status == 0, answer.err
    assert answer.out.startswith(f"{kind}\n")
    assert "  reads  " in answer.out
    assert "  answers  " in answer.out
    assert ("encoder reads" in answer.out) == (
        kind not in PROBLEM_LAYOUTS or PROBLEM_LAYOUTS[kind].with_encoder is not None
    )
    named = answer.out[answer.out.index("presets allowed") :].replace("\n", " ")
    assert all(preset in named for preset in presets())
    assert max(map(len, answer.out.splitlines())) <= 110


def test_the_next_token_stands_under_the_one_before(ask):
    lines = ask("show", "causal").out.splitlines()
    reads, answers = (
        next(line for line in lines if line.startswith(f"  {label} "))
        for label in ("reads", "answers")
    )
    assert reads.split()[1:5] == ["the", "mask", "says", "who"]
    assert answers.split()[1:5] == ["mask", "says", "who", "may"]
    assert reads.index("says") == answers.index("who")
    (one,) = objective_examples(OBJECTIVES_BY_KIND["causal"]())
    assert list(one.reads) == WORDS
    assert one.answers == dict(enumerate(WORDS[1:]))


def test_a_token_is_masked_another_replaced_a_third_left(ask):
    (one,) = objective_examples(MaskedLM())
    assert {place: WORDS[place] for place in one.answers} == one.answers
    fates = {
        "masked" if one.reads[at] == "‹mask›" else one.reads[at] == word
        for at, word in one.answers.items()
    }
    assert fates == {"masked", True, False}


def test_spans_are_named_by_their_gaps_in_question_and_answer():
    alone, with_encoder = objective_examples(OBJECTIVES_BY_KIND["spans"]())
    assert alone.reads[: alone.prefix].count("‹gap 0›") == 1
    assert next(iter(alone.answers)) == alone.prefix - 1
    assert with_encoder.source is not None
    assert {"‹gap 0›", "‹gap 1›"} < set(with_encoder.source)
    assert with_encoder.reads[0] == "‹start›"
    told = list(with_encoder.answers.values())
    assert (told[0], told[-1]) == ("‹gap 0›", "‹end›")
    restored: list[str] = []
    for word in with_encoder.source:
        gap = told.index(word) + 1 if word.startswith("‹gap") else None
        until = (
            next((n for n in range(gap, len(told)) if told[n].startswith("‹gap")), len(told) - 1)
            if gap
            else 0
        )
        restored += told[gap:until] if gap else [word]
    assert restored == WORDS


def test_a_pair_is_read_by_encoder_and_decoder_apart():
    alone, with_encoder = objective_examples(OBJECTIVES_BY_KIND["seq2seq"]())
    source, target = (text.split() for text in PAIR)
    assert alone.prefix == len(source)
    assert list(alone.answers.values()) == [*target, "‹end›"]
    assert with_encoder.source == tuple(source)
    assert with_encoder.reads == ("‹start›", *target)


def test_each_denoiser_of_ul2_is_shown_under_its_sign(ask):
    found = list(objective_examples(OBJECTIVES_BY_KIND["ul2"]()))
    assert [one.component for one in found] == [part for part in UL2_COMPONENTS for _ in range(2)]
    for one in found:
        assert (one.source or one.reads)[0] == f"‹{one.component.mode}›"
    out = ask("show", "ul2").out
    assert "spans(mean_span=64, rate=0.5), with the mode token ‹X›, from running text" in out
    assert "continuation(rate=0.25), with the mode token ‹S›, from running text" in out


@pytest.mark.parametrize("kind", OBJECTIVES_BY_KIND)
def test_the_verdicts_are_those_a_run_would_meet(kind):
    for preset, why in preset_refusals(OBJECTIVES_BY_KIND[kind]()).items():
        spec = resolve(load(preset))
        if why is None:
            require_permitted(OBJECTIVES_BY_KIND[kind](), spec, 40)
            continue
        with pytest.raises(SpecError):
            require_permitted(OBJECTIVES_BY_KIND[kind](), spec, 40)
        assert why.startswith("objective.kind is ")
        assert not shorten_refusal(why).startswith("objective")
        assert ";" not in shorten_refusal(why)


@pytest.mark.parametrize("kind", OBJECTIVES_BY_KIND)
def test_it_is_told_what_a_prefix_mask_gets(ask, kind):
    words = " ".join(ask("show", kind).out.split())
    frames = {one.frame for one in objective_examples(OBJECTIVES_BY_KIND[kind]())}
    assert frames == {
        frame
        for frame in PREFIX_DESCRIPTIONS
        if f"under a prefix mask, {PREFIX_DESCRIPTIONS[frame]}" in words
    }
    for one in json.loads(ask("show", kind, "--json").out)["examples"]:
        assert one["under_prefix_mask"] == PREFIX_DESCRIPTIONS[one["frame"]]


@pytest.mark.parametrize("kind", ["masked", "last_token"])
def test_all_of_a_text_with_hidden_answers_is_underlined_as_the_prefix(ask, kind):
    (one,) = objective_examples(OBJECTIVES_BY_KIND[kind]())
    assert one.prefix == len(one.reads)
    out = ask("show", kind).out
    assert "under a prefix mask, the whole text is the prefix" in out
    assert out.count("  prefix  ") == out.count("  reads  ") > 0


def test_fields_can_be_changed(ask):
    out = ask(
        "show", "masked", "--set", "rate=0.5", "--set", "masked=1.0", "--set", "replaced=0.0"
    ).out
    assert "masked(rate=0.5, masked=1, replaced=0), from running text" in out
    assert out.count("‹mask›") == round(0.5 * len(WORDS))


def test_json_holds_examples_and_reasons(ask):
    told = json.loads(ask("show", "prefix", "--json").out)
    assert told["objective"] == {"kind": "prefix", "least": 0.25, "most": 0.75, "grid": 16}
    alone, with_encoder = told["examples"]
    assert (alone["frame"], alone["source"], with_encoder["frame"]) == ("together", None, "apart")
    assert alone["answers"][0] == {"at": alone["prefix"] - 1, "answer": WORDS[alone["prefix"]]}
    assert told["presets"]["unilm"] is None
    assert "but it can see it: layer 0 (full)" in told["presets"]["bert"]


def test_the_function_shows_what_the_verb_shows(ask, capsys):
    expected = ask("show", "last_token").out
    pb.show("last_token")
    assert capsys.readouterr().out == expected


BAD = [
    (
        ("maskd",),
        (
            "maskd is not a preset, an objective, or a .toml or .json file; did you mean 'masked'?"
            " objectives are"
        ),
    ),
    (
        ("mixture",),
        "'mixture' is an objective whose components a run lists; show one of causal, reverse",
    ),
    (("gpt2", "causal"), "'causal' is an objective, which is shown alone; leave the rest out"),
    (
        ("causal", "--length", "9"),
        "--length is 9 for the objective 'causal', which has none; leave it out",
    ),
    (
        ("causal", "--prefix", "9"),
        "--prefix is 9 for the objective 'causal', which has none; leave it out",
    ),
    (
        ("spans", "--set", "rte=0.2"),
        "objective.rte is not a key here; did you mean 'rate'? keys are kind, mean_span",
    ),
    (("spans", "--set", "rate=2"), "objective.rate is 2 (int); use less than 1"),
]


@pytest.mark.parametrize(("words", "complaint"), BAD)
def test_what_cannot_be_shown_is_refused(ask, words, complaint):
    answer = ask("show", *words)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith(f"error: {complaint}")


def test_a_narrow_page_cuts_no_word(ask, monkeypatch):
    monkeypatch.setattr("paribus.cli.terminal.console._PIPE_WIDTH", 44)
    out = ask("show", "continuation").out
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 44
