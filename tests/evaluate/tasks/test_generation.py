"""Generation as a task: greedy answers compared with references, cut where the task says."""

import math

import pytest
import torch
from byte_models import BYTE_TOKENIZER, byte_model

from paribus.corpus.conversations import Turn, prompt_tokens
from paribus.corpus.tasks import GenerationItem
from paribus.errors import UnsupportedError
from paribus.evaluate import Item, likelihoods
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.tasks import ask_generation
from paribus.evaluate.tasks.arms import asked_model_arm
from paribus.evaluate.tasks.generation import cut_answer
from paribus.model import Transformer
from paribus.spec.objectives import CausalLM, MaskedLM, Objective, PrefixLM, Seq2Seq
from paribus.spec.task_loading import load_task
from paribus.spec.tasks import GenerationTask

TABLE = {"kind": "generation", "paths": "x", "source": "{s}", "references": "{r}"}


def task(**fields: object) -> GenerationTask:
    loaded = load_task({**TABLE, **fields})
    assert isinstance(loaded, GenerationTask)
    return loaded


def copying_model() -> Transformer:
    """A model that says its last token again: every branch is silenced."""
    model = byte_model("gpt2")
    for name, parameter in model.named_parameters():
        if "output" in name or "down" in name or name.startswith("positions"):
            parameter.data.zero_()
    return model


def item(source: str, *references: str) -> GenerationItem:
    return GenerationItem(source, source, source, references)


def test_answers_are_greedy_and_cut_at_a_stop() -> None:
    asked = AskedModel(copying_model(), CausalLM(), BYTE_TOKENIZER)
    items = [item("say a", "aaaa"), item("now say b", "aaaa"), item("x", "xxxx", "yy")]
    result = ask_generation(asked, task(), items)
    assert [answer.chosen for answer in result.answers] == ["aaaa", "bbbb", "xxxx"]
    assert [answer.score for answer in result.answers] == [1.0, 0.0, 1.0]
    assert [answer.key for answer in result.answers] == ["aaaa", "aaaa", "xxxx\nyy"]
    stopped = ask_generation(asked, task(stop=["bb"]), items)
    assert stopped.answers[1].chosen == ""


def test_an_answer_is_cut_after_its_words() -> None:
    one = task(n_words=1, stop=["."])
    assert cut_answer(one, " signs of spring") == "signs"
    assert cut_answer(one, " signs. Of spring") == " signs"
    assert cut_answer(one, " sig") == " sig"
    assert cut_answer(task(n_words=2), "the sea  again") == "the sea"


def test_the_constant_answer_is_the_floor() -> None:
    asked = AskedModel(copying_model(), CausalLM(), BYTE_TOKENIZER)
    items = [item("say a", "no"), item("say b", "no"), item("x", "yes")]
    assert ask_generation(asked, task(), items).floors == {"majority": pytest.approx(2 / 3)}
    assert ask_generation(asked, task(measure="bits per byte"), items).floors == {}


def test_the_floor_of_a_reward_is_that_of_the_constant_answer() -> None:
    asked = AskedModel(copying_model(), CausalLM(), BYTE_TOKENIZER)
    items = [item("say a", "ab"), item("say b", "ab"), item("x", "xb")]
    result = ask_generation(asked, task(measure="reward"), items)
    assert [answer.score for answer in result.answers] == [0.5, 0.5, 0.5]
    assert result.floors == {"majority": pytest.approx((1 + 1 + 0.5) / 3)}
    assert result.summary["exact match"] == 0.0


@pytest.mark.parametrize("preset", ["gpt2", "unilm", "t5"])
def test_a_context_is_the_turn_of_a_user_after_conversations(preset: str) -> None:
    asked = AskedModel(byte_model(preset), Seq2Seq(), BYTE_TOKENIZER, in_turns=True)
    arm = asked_model_arm(asked)
    vocabulary = arm.layout.vocabulary
    expected = prompt_tokens([Turn("user", "cab=")], BYTE_TOKENIZER, vocabulary)
    assert list(arm.encode_contexts(["cab="])[0]) == expected
    assert vocabulary.end_of_turn in arm.layout.end_tokens
    assert arm.encode(["cab="])[0] == arm.encode_targets(["cab="])[0]


def test_only_what_follows_the_mark_is_compared() -> None:
    asked = AskedModel(copying_model(), CausalLM(), BYTE_TOKENIZER)
    result = ask_generation(asked, task(answer_after="#", max_tokens=2), [item("a", "x # aa")])
    assert result.answers[0].score == 1.0


@pytest.mark.parametrize(
    ("preset", "objective"),
    [("gpt2", CausalLM()), ("unilm", PrefixLM()), ("t5", PrefixLM()), ("bart", Seq2Seq())],
    ids=lambda value: getattr(value, "kind", value),
)
def test_bits_per_byte_are_those_of_the_first_reference(preset: str, objective: Objective) -> None:
    asked = AskedModel(byte_model(preset), objective, BYTE_TOKENIZER)
    items = [item("one two", " three", " four"), item("x", "y")]
    result = ask_generation(asked, task(measure="bits per byte"), items)
    expected = likelihoods(asked, [Item("0", "", "one two", " three"), Item("1", "", "x", "y")])
    for answer, own in zip(result.answers, expected, strict=True):
        assert answer.score == pytest.approx(own.nats / math.log(2), rel=1e-5)
        assert answer.count == own.n_bytes
    both = ask_generation(asked, task(), items)
    total = sum(own.nats for own in expected) / math.log(2) / 7
    assert both.summary["bits per byte"] == pytest.approx(total, rel=1e-5)


def test_answers_do_not_depend_on_their_company() -> None:
    torch.manual_seed(0)
    asked = AskedModel(byte_model("unilm"), PrefixLM(), BYTE_TOKENIZER)
    items = [item("one two", "three"), item("x", "yyyyy"), item("a longer source", "z")]
    together = ask_generation(asked, task(max_tokens=6), items)
    for number, one in enumerate(items):
        alone = ask_generation(asked, task(max_tokens=6), [one])
        assert alone.answers[0].chosen == together.answers[number].chosen


def test_a_model_that_fills_masks_cannot_be_asked_to_generate() -> None:
    asked = AskedModel(byte_model("bert"), MaskedLM(), BYTE_TOKENIZER)
    with pytest.raises(UnsupportedError, match="cannot predict them; generate with a causal"):
        ask_generation(asked, task(), [item("one", "two")])
