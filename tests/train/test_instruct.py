"""A stage of conversations: the same rows for every architecture, the loss on responses alone, and
a template that leaves with the model.
"""

from functools import partial
from pathlib import Path

import pytest
import torch
from conversation_run import LANGUAGE, conversation_run, conversation_table
from transformers import AutoTokenizer, GenerationConfig

from paribus.cli.generate import generate_text
from paribus.corpus import Turn, document_text, prepare_corpus
from paribus.corpus.conversations import CHAT_TEMPLATE, prompt_tokens
from paribus.errors import SpecError
from paribus.evaluate import evaluate, select_items
from paribus.generate import Sampling
from paribus.interop import export
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.objectives import pose_problem
from paribus.spec import HeldOutPairs
from paribus.spec.objectives import Seq2Seq
from paribus.spec.run import load_run
from paribus.train.chain import prepare_texts, train_chain
from paribus.train.parent import Texts
from paribus.workspace import Workspace


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Texts:
    cache = tmp_path_factory.mktemp("cache")
    prepare = partial(prepare_corpus, cache=cache, show_progress=False)
    return prepare_texts(conversation_run(), prepare)


@pytest.fixture(scope="module")
def trained(texts: Texts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose last stage read conversations."""
    root = tmp_path_factory.mktemp("runs")
    return train_chain(conversation_run(), texts, Workspace(root, device="cpu")).folder


def test_the_response_alone_is_scored_in_one_sequence_and_in_two(texts):
    text, vocabulary = texts[1], texts[1].vocabulary
    batch = text.text_batch("train", 1, 0, 5, 24)
    together = pose_problem(Seq2Seq(), batch, vocabulary, 1, False, False)
    apart = pose_problem(Seq2Seq(), batch, vocabulary, 1, True, False)
    assert apart.inputs.source is not None
    for row in range(5):
        own = together.targets_BM[row][together.weights_BM[row] > 0].tolist()
        assert own == apart.targets_BM[row][apart.weights_BM[row] > 0].tolist()
        assert own[-1] == vocabulary.end_of_turn
        source = apart.inputs.source
        assert source.layout.real_BT is not None
        read = source.tokens_BT[row][source.layout.real_BT[row]].tolist()
        question = text.decode(read)
        expected = prompt_tokens([Turn("user", question)], text.tokenizer, vocabulary)
        assert read == expected
        assert text.decode(own) == question[:-1][::-1]


def test_a_checkpoint_has_the_template_where_a_stage_read_conversations(trained):
    checkpoint = load_checkpoint(trained)
    assert (checkpoint.folder / "chat_template.jinja").read_text() == CHAT_TEMPLATE
    assert checkpoint.chat_template == CHAT_TEMPLATE
    parent = next(path for path in trained.parent.iterdir() if path != trained)
    assert load_checkpoint(parent).chat_template is None
    assert load_checkpoint(parent).encode_prompt("ab=") == list(b"ab=")


CONVERSATIONS = [
    [("user", "abc=")],
    [("system", "Be brief. "), ("user", " a\n b")],
    [("user", "a"), ("assistant", "b é"), ("user", "c")],
]


@pytest.mark.parametrize("turns", CONVERSATIONS, ids=["one", "system", "three"])
def test_transformers_gives_the_ids_of_our_framing(trained, tmp_path, turns):
    export(trained, tmp_path / "hf")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "hf")
    messages = [{"role": role, "content": content} for role, content in turns]
    given = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    checkpoint = load_checkpoint(trained)
    expected = prompt_tokens(
        [Turn(*turn) for turn in turns], checkpoint.tokenizer, checkpoint.vocabulary
    )
    assert list(given) == expected


def test_an_answer_of_transformers_ends_where_a_turn_does(trained, tmp_path):
    export(trained, tmp_path / "hf")
    vocabulary = load_checkpoint(trained).vocabulary
    config = GenerationConfig.from_pretrained(tmp_path / "hf")
    assert config.eos_token_id == [vocabulary.end_of_turn, vocabulary.eos]
    assert config.pad_token_id == vocabulary.pad


def test_a_prompt_is_the_turn_of_a_user_and_its_answer_ends_with_the_turn(trained, monkeypatch):
    seen = {}

    def watched(model, layout, contexts, sampling, **more):
        seen.update(layout=layout, contexts=contexts)
        return genuine(model, layout, contexts, sampling, **more)

    import paribus.cli.generate as verb

    genuine = verb.generate_answers
    monkeypatch.setattr(verb, "generate_answers", watched)
    answer = generate_text(trained, "abc=", Sampling(5))
    checkpoint = load_checkpoint(trained)
    vocabulary = checkpoint.vocabulary
    expected = prompt_tokens([Turn("user", "abc=")], checkpoint.tokenizer, vocabulary)
    assert seen["contexts"] == [expected]
    assert seen["layout"].end_tokens == (vocabulary.eos, vocabulary.end_of_turn)
    assert "‹" not in answer


def test_held_out_responses_are_scored_after_their_turns(trained, texts):
    yardstick = HeldOutPairs(n_items=7)
    items = select_items(texts[1], yardstick)
    assert len(items) == 7
    held_out = {
        document_text(texts[1], "test", 0, number)
        for number in range(texts[1].readers["test"][0].shard.n_documents)
    }
    for item in items:
        assert (item.context, item.target) in held_out
        (turn,) = item.turns
        assert turn.role == "user"
        assert turn.content[:-1][::-1] == item.target
    evaluation = evaluate(trained, yardstick, texts[1], device=torch.device("cpu"))
    checkpoint = load_checkpoint(trained)
    model, vocabulary = checkpoint.restore(), checkpoint.vocabulary
    for item, answer in zip(items, evaluation.answers, strict=True):
        source = prompt_tokens(item.turns, checkpoint.tokenizer, vocabulary)
        target = checkpoint.tokenizer.encode(item.target)
        with torch.no_grad():
            logits = model(torch.tensor([[*source, *target]])).logits_BTV[0].log_softmax(-1)
        nats = 0.0
        for place, token in enumerate(target):
            nats -= float(logits[len(source) - 1 + place, token])
        assert answer.nats == pytest.approx(nats, abs=1e-4)
        assert answer.n_tokens == len(target)


REFUSALS = {
    "stages.1.kind is 'instruct', but corpus.sources gives pairs; use a source 'conversations'": {
        "stages.1.corpus.sources": [LANGUAGE]
    },
    "stages.1.kind is 'tune', but corpus.sources gives conversations; use 'instruct'": {
        "stages.1.kind": "tune"
    },
    "stages.1.kind is 'instruct', but objective.kind is 'causal'; use 'seq2seq'": {
        "stages.1.objective": "causal"
    },
    "stages.0.kind is 'pretrain', but corpus.sources gives conversations; use 'instruct'": {
        "stages.0.corpus.sources": [{**LANGUAGE, "form": "conversations"}]
    },
    "which only a stage that begins with initial weights can be; use 'adapt', 'tune'": {
        "stages.1.kind": "pretrain"
    },
}


@pytest.mark.parametrize("message", REFUSALS)
def test_a_kind_and_its_text_belong_together(message):
    table = conversation_table()
    for path, value in REFUSALS[message].items():
        _, number, *names = path.split(".")
        inner = table["stages"][number]
        for name in names[:-1]:
            inner = inner[name]
        inner[names[-1]] = value
    with pytest.raises(SpecError, match=message):
        load_run(table)
