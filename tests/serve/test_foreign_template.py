"""Templates of others: rendered as transformers renders them, in a sandbox, within limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chat_template import BEGIN, CHATML, END, byte_library

from paribus.corpus import Tokenizer
from paribus.corpus.conversations import Turn
from paribus.errors import SpecError
from paribus.serve.foreign_template import ForeignTemplate
from paribus.serve.template_process import TemplateProcess

TURNS = [Turn("user", " hi <|im_end|> "), Turn("assistant", "yes"), Turn("user", "no")]


@pytest.fixture(scope="module")
def process() -> Iterator[TemplateProcess]:
    made = TemplateProcess()
    yield made
    made.close()


def template(source: str, process: TemplateProcess) -> ForeignTemplate:
    return ForeignTemplate(source, {"bos_token": "<s>"}, Tokenizer(byte_library()), process)


def test_special_tokens_are_read_in_the_program_and_not_in_what_people_say(
    process: TemplateProcess,
) -> None:
    ids = template(CHATML, process).tokens(TURNS[:1], [None])
    expected = [BEGIN, *b"user\n hi <|im_end|> ", END, *b"\n", BEGIN, *b"assistant\n"]
    assert ids == expected


def test_what_was_said_keeps_its_tokens(process: TemplateProcess) -> None:
    ids = template(CHATML, process).tokens(TURNS, [None, (1, 2, 3), None])
    begin = ids.index(1)
    assert ids[begin : begin + 4] == [1, 2, 3, END]


def test_a_template_may_strip_contents(process: TemplateProcess) -> None:
    source = CHATML.replace("message['content']", "message['content'] | trim")
    ids = template(source, process).tokens(TURNS[:1], [None])
    assert ids[:2] == [BEGIN, *b"u"]
    assert bytes(one for one in ids if one < 256) == b"user\nhi <|im_end|>\nassistant\n"


def test_a_template_that_changes_contents_gets_no_special_tokens_from_them(
    process: TemplateProcess,
) -> None:
    source = CHATML.replace("message['content']", "message['content'] | upper")
    with pytest.raises(SpecError, match=r"messages.0.content holds '<\|im_end\|>', a special"):
        template(source, process).tokens([Turn("user", "x <|im_end|>")], [None])
    ids = template(source, process).tokens([Turn("user", "abc")], [None])
    assert ids == [BEGIN, *b"user\nABC", END, *b"\n", BEGIN, *b"assistant\n"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ raise_exception('no system here') }}", "TemplateError: no system here"),
        ("{{ messages[0].content.__class__.__mro__ }}", "SecurityError: access to attribute"),
        ("{% if %}", "TemplateSyntaxError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ range(1000000) | list }}", "OverflowError: Range too big"),
    ],
)
def test_what_a_template_may_not_do_is_refused(
    process: TemplateProcess, source: str, words: str
) -> None:
    with pytest.raises(SpecError, match=f"refuses the messages: .*{words}"):
        template(source, process).render(TURNS)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for a in range(60) %}"
        "{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    ],
)
def test_a_template_that_takes_too_much_is_ended_and_the_next_is_rendered(
    process: TemplateProcess, source: str
) -> None:
    with pytest.raises(SpecError, match=r"takes more than 1 s or 256 MiB|MemoryError"):
        template(source, process).render(TURNS)
    assert template("{{ bos_token }}", process).render(TURNS) == "<s>"


def test_it_renders_as_transformers_does(process: TemplateProcess) -> None:
    from transformers import PreTrainedTokenizerFast

    library = PreTrainedTokenizerFast(tokenizer_object=byte_library())
    turns = [Turn("system", "s"), Turn("user", "q\n"), Turn("assistant", "é"), Turn("user", "z")]
    messages = [{"role": turn.role, "content": turn.content} for turn in turns]
    expected = library.apply_chat_template(
        messages, chat_template=CHATML, add_generation_prompt=True, tokenize=True
    )
    if not isinstance(expected, list):
        expected = expected["input_ids"]
    assert template(CHATML, process).tokens(turns, [None] * 4) == expected
