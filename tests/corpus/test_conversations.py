"""Conversations: what is read from files, how it is framed, and that nothing in a text is taken
for a special token.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from small_corpus import all_documents, build_small_corpus, write_jsonl

from paribus.corpus import Turn, document_turns, language_answer
from paribus.corpus.conversations import (
    conversation_documents,
    prompt_tokens,
    readable_turns,
)
from paribus.errors import RecordError, SpecError
from paribus.spec import Corpus

HELLO = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi ‹user›"},
    {"role": "assistant", "content": "Hello é"},
    {"role": "user", "content": "Bye"},
    {"role": "assistant", "content": "So long"},
]


def corpus_of(tmp_path: Path, rows: list[dict[str, Any]], **fields: Any):
    path = write_jsonl(tmp_path / "given.jsonl", rows)
    return build_small_corpus(tmp_path, {"kind": "conversations", "paths": str(path)}, **fields)


TOKENIZERS = ["bytes", {"kind": "bpe", "n_vocab": 260}]


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=["bytes", "bpe"])
def test_every_response_is_a_pair_with_all_that_comes_before_it(tmp_path, tokenizer):
    corpus = corpus_of(tmp_path, [{"messages": HELLO}], tokenizer=tokenizer)
    first = "‹system›Be brief.‹end of turn›‹user›Hi ‹user›‹end of turn›‹assistant›"
    second = f"{first}Hello é‹end of turn›‹user›Bye‹end of turn›‹assistant›"
    assert all_documents(corpus, "train") == [(first, "Hello é"), (second, "So long")]
    turns = tuple(Turn(**message) for message in HELLO)
    assert document_turns(corpus, "train", 0, 0) == turns[:2]
    assert document_turns(corpus, "train", 0, 1) == turns[:4]
    assert readable_turns(turns[:4]) == second


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=["bytes", "bpe"])
def test_a_row_holds_the_framed_source_and_the_response_with_its_end(tmp_path, tokenizer):
    corpus = corpus_of(tmp_path, [{"messages": HELLO}], tokenizer=tokenizer)
    vocabulary, turns = corpus.vocabulary, tuple(Turn(**message) for message in HELLO)
    batch = corpus.text_batch("train", 1, 0, 2, 97)
    assert batch.target_starts_B is not None
    assert batch.real_BT is not None
    rows = set()
    for tokens, real, start in zip(
        batch.tokens_BT, batch.real_BT, batch.target_starts_B.tolist(), strict=True
    ):
        row = tokens[real].tolist()
        rows.add((tuple(row[:start]), tuple(row[start:])))
    expected = set()
    for end, answer in ((2, "Hello é"), (4, "So long")):
        source = prompt_tokens(turns[:end], corpus.tokenizer, vocabulary)
        expected.add((tuple(source), (*corpus.encode(answer), vocabulary.end_of_turn)))
    assert rows == expected


def test_a_prompt_with_a_response_is_a_conversation_of_two_turns(tmp_path):
    rows = [
        {"prompt": "one", "response": "two", "more": 3},
        {"prompt": "a", "response": "b", "system": "c"},
    ]
    corpus = corpus_of(tmp_path, rows)
    assert all_documents(corpus, "train") == [
        ("‹user›one‹end of turn›‹assistant›", "two"),
        ("‹system›c‹end of turn›‹user›a‹end of turn›‹assistant›", "b"),
    ]


def test_the_responses_of_a_conversation_are_held_out_together(tmp_path):
    rows = []
    for number in range(60):
        messages = []
        for turn in range(4):
            messages += [
                {"role": "user", "content": f"question {turn} of {number}"},
                {"role": "assistant", "content": f"answer {turn} of {number}"},
            ]
        rows.append({"messages": messages})
    corpus = corpus_of(tmp_path, rows, valid=0.2, test=0.2)
    openings = {}
    for split in ("train", "valid", "test"):
        documents = all_documents(corpus, split)
        assert len(documents) % 4 == 0
        openings[split] = {source.split("‹end of turn›")[0] for source, _ in documents}
        assert documents
    assert not openings["train"] & openings["valid"]
    assert not openings["train"] & openings["test"]


def test_an_invented_language_speaks_in_conversations_and_asks_the_same(tmp_path):
    source = {"kind": "sort", "n_documents": 40, "min_length": 2, "max_length": 5}
    pairs = all_documents(build_small_corpus(tmp_path, source), "train")
    corpus = build_small_corpus(tmp_path, {**source, "form": "conversations"})
    expected = [(f"‹user›{ask}‹end of turn›‹assistant›", answer) for ask, answer in pairs]
    assert all_documents(corpus, "train") == expected
    preferences = build_small_corpus(tmp_path, {**source, "form": "preferences"})
    language = preferences.spec.sources[0]
    for (ask, answer), (prompt, chosen, rejected) in zip(
        pairs, all_documents(preferences, "train"), strict=True
    ):
        assert prompt == f"‹user›{ask}‹end of turn›‹assistant›"
        assert chosen == answer == language_answer(language, ask)
        assert len(rejected) == len(answer)
        assert sum(a != b for a, b in zip(answer, rejected, strict=True)) == 1


def test_no_document_without_a_response():
    assert not list(conversation_documents([Turn("user", "a")]))


def messages(*turns: tuple[Any, Any]) -> str:
    return json.dumps({"messages": [{"role": role, "content": text} for role, text in turns]})


BAD_LINES = {
    messages(("user", "a")): "has no 'assistant' turn; give at least one response",
    messages(("user", "a"), ("assistant", "b"), ("user", "c")): "ends with a 'user' turn, which",
    messages(("user", "a"), ("tool", "b")): r"has the role 'tool' in messages\[1\]; roles are",
    messages(("user", " "), ("assistant", "b")): r"has no text in messages\[0\].content; give",
    messages(("user", 3), ("assistant", "b")): r"has messages\[0\].content = '3' \(int\); give",
    messages(("assistant", "b")): "has a 'assistant' turn first, where a 'user' turn is due",
    messages(("user", "a"), ("user", "b")): "has a 'user' turn after the 'user' turn, where a",
    messages(("system", "a"), ("system", "b")): "has two system turns; give at most one",
    messages(("user", "a"), ("system", "b")): "has a system turn after another; give at most one",
    messages(("system", "a")): "has a system turn alone; give a user turn after it",
    '{"messages": []}': r"has messages = '\[\]'; give a list of objects",
    '{"messages": ["a"]}': r"has messages\[0\] = 'a'; give an object with a role",
    '{"messages": [{"role": "user", "content": "a", "name": "b"}]}': (
        r"has the key 'name' in messages\[0\]; give a role and a content alone"
    ),
    '{"messages": [], "prompt": "a"}': "has 'prompt' beside 'messages'; give one of the two",
    '{"prompt": "a"}': "has no key 'response'; its keys are 'prompt'. Give 'messages', or 'prompt'",
    '{"prompt": "", "response": "b"}': "has no text in prompt; give some",
    '{"prompt": "\\ud800", "response": "b"}': "holds half a surrogate pair at character 0",
    '["a"]': "is a list, not an object; write one object a line",
    "{": "is not JSON: ",
}


@pytest.mark.parametrize("line", BAD_LINES, ids=BAD_LINES.values())
def test_a_bad_line_is_named_with_its_number(tmp_path, line):
    path = tmp_path / "given.jsonl"
    path.write_text('{"prompt": "a", "response": "b"}\n\n' + line + "\n")
    with pytest.raises(RecordError, match=f"given.jsonl line 3 {BAD_LINES[line]}"):
        build_small_corpus(tmp_path, {"kind": "conversations", "paths": str(path)})


def test_what_is_not_utf8_is_named_with_its_line_or_replaced(tmp_path):
    path = tmp_path / "given.jsonl"
    path.write_bytes(b'{"prompt": "a", "response": "b"}\n{"prompt": "\xff", "response": "b"}\n')
    source = {"kind": "conversations", "paths": str(path)}
    with pytest.raises(RecordError, match=r"given\.jsonl line 2 is not UTF-8 at byte 45; save it"):
        build_small_corpus(tmp_path, source)
    corpus = build_small_corpus(tmp_path, {**source, "errors": "replace"})
    assert corpus.index.sources[0].n_replaced == 1


BAD_PREFERENCES = {
    '{"prompt": "a", "chosen": "b"}': "has no key 'rejected'; its keys are 'prompt', 'chosen'.",
    '{"prompt": "a", "chosen": "b", "rejected": "b"}': "has the same text as 'chosen' and",
    '{"chosen": "a", "rejected": "b"}': "has no key 'prompt'; its keys are 'chosen', 'rejected'.",
    '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],'
    ' "chosen": "c", "rejected": "d"}': "has messages that end with a 'assistant' turn; end them",
}


@pytest.mark.parametrize("line", BAD_PREFERENCES, ids=BAD_PREFERENCES.values())
def test_a_bad_preference_is_named_with_its_number(tmp_path, line):
    path = tmp_path / "given.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(RecordError, match=f"given.jsonl line 1 {BAD_PREFERENCES[line]}"):
        build_small_corpus(tmp_path, {"kind": "preferences", "paths": str(path)})


def test_preferences_follow_a_prompt_or_a_conversation(tmp_path):
    rows = [
        {"prompt": "a", "system": "s", "chosen": "b", "rejected": "c"},
        {"messages": HELLO[1:4], "chosen": "So long", "rejected": "What?"},
    ]
    path = write_jsonl(tmp_path / "given.jsonl", rows)
    corpus = build_small_corpus(tmp_path, {"kind": "preferences", "paths": str(path)})
    assert all_documents(corpus, "train") == [
        ("‹system›s‹end of turn›‹user›a‹end of turn›‹assistant›", "b", "c"),
        (
            "‹user›Hi ‹user›‹end of turn›‹assistant›Hello é‹end of turn›‹user›Bye‹end of turn›"
            "‹assistant›",
            "So long",
            "What?",
        ),
    ]


def test_all_sources_of_a_corpus_give_the_same():
    with pytest.raises(ValueError, match="'copy' gives pairs and 'conversations' conversations"):
        Corpus.model_validate({"sources": ["copy", {"kind": "conversations", "paths": "a"}]})


def test_a_file_of_another_kind_is_not_read(tmp_path):
    (tmp_path / "given.csv").write_text("prompt,response\na,b\n")
    with pytest.raises(SpecError, match=r"conversations|jsonl"):
        build_small_corpus(tmp_path, {"kind": "conversations", "paths": str(tmp_path)})
