"""The same question for every arm: demonstrations that fit all, contexts cut at the same byte."""

from dataclasses import replace

import pytest
from byte_models import BYTE_TOKENIZER, byte_model

from paribus.corpus import Tokenizer
from paribus.corpus.tasks import ChoiceItem, GenerationItem
from paribus.corpus.tokenizer import train_tokenizer
from paribus.errors import SpecError
from paribus.evaluate.tasks import TaskArm, demonstrations_that_fit, task_arm
from paribus.evaluate.tasks.protocols import PreparedItems, prepare_items
from paribus.spec import load
from paribus.spec.corpus import BPETokenizer
from paribus.spec.objectives import CausalLM, PrefixLM
from paribus.spec.resolved import resolve
from paribus.spec.task_loading import load_task
from paribus.spec.tasks import FewShot, ZeroShot

TABLE = {"kind": "choices", "paths": "x", "context": "{q}", "options": "{o}", "key": "0"}
TASK = load_task(TABLE)
CUT = load_task({**TABLE, "too_long": "cut"})
ITEM = ChoiceItem("item", "", "1+1=", ("2", "33"), 0)
SHOWN = tuple(ChoiceItem(f"d{n}", "", f"{n}+{n}=", (str(2 * n), "0"), 0) for n in range(1, 8))


def byte_arm(window: int, preset: str = "gpt2", objective=None) -> TaskArm:
    model = byte_model(preset)
    return task_arm(model.spec, objective or CausalLM(), BYTE_TOKENIZER, window=window)


def prepare(items, arms, protocol=None, task=TASK) -> PreparedItems:
    return prepare_items(task, items, SHOWN, arms, protocol or ZeroShot())


def test_as_many_whole_demonstrations_as_fit_the_smallest_window() -> None:
    # "1+1=2\n\n" has 7 bytes; beside the item's 4, the two of its longest option and `bos`
    small, large = byte_arm(4 + 2 + 1 + 2 * 7 + 3), byte_arm(80)
    protocol = FewShot(n_demonstrations=5)
    alone = prepare([ITEM], [large], protocol)
    both = prepare([ITEM], [large, small], protocol)
    assert alone.n_demonstrations == (5,)
    assert both.n_demonstrations == (2,)
    assert isinstance(both.items[0], ChoiceItem)
    shown = both.items[0].context.split("\n\n")
    assert len(shown) == 3
    assert shown[-1] == "1+1="
    assert isinstance(alone.items[0], ChoiceItem)
    assert alone.items[0].context.split("\n\n")[:2] == shown[:2]
    assert prepare([ITEM], [small, large], protocol) == both


def test_an_encoders_window_of_its_own_is_no_excuse() -> None:
    apart = byte_arm(26, "t5", PrefixLM())
    together = byte_arm(26)
    protocol = FewShot(n_demonstrations=5)
    alone = prepare([ITEM], [apart], protocol).n_demonstrations[0]
    both = prepare([ITEM], [apart, together], protocol).n_demonstrations[0]
    assert alone > both
    assert prepare([ITEM], [together], protocol).n_demonstrations[0] == both


def test_demonstrations_are_drawn_by_the_items_name_alone() -> None:
    arm = byte_arm(80)
    others = [replace(ITEM, name="before"), ITEM]
    protocol = FewShot(n_demonstrations=3)
    assert prepare(others, [arm], protocol).items[1] == prepare([ITEM], [arm], protocol).items[0]
    other_seed = prepare([ITEM], [arm], FewShot(n_demonstrations=3, seed=1))
    assert other_seed.items != prepare([ITEM], [arm], protocol).items


def test_an_item_that_does_not_fit_one_arm_is_left_out_of_all() -> None:
    long = replace(ITEM, name="long", context="x" * 40)
    result = prepare([ITEM, long], [byte_arm(80), byte_arm(30)])
    assert [item.name for item in result.items] == ["item"]
    assert result.n_left_out == 1
    assert prepare([ITEM, long], [byte_arm(80)]).n_left_out == 0
    with pytest.raises(SpecError, match="has no item that fits every model; the windows are 80, 3"):
        prepare([ITEM], [byte_arm(80), byte_arm(3)])


def test_a_context_is_cut_at_the_same_byte_for_all() -> None:
    long = replace(ITEM, context="".join(chr(97 + n % 26) for n in range(60)))
    small, large = byte_arm(20), byte_arm(50)
    result = prepare([long], [large, small], task=CUT)
    assert isinstance(result.items[0], ChoiceItem)
    # 20 positions: `bos`, the context, and two tokens of the longest option
    assert result.items[0].context == long.context[-17:]
    assert result.n_truncated_bytes == (60 - 17,)


def test_tokens_of_another_size_are_counted_too() -> None:
    text = "the cat sat on the mat and the cat saw the rat " * 40
    words: Tokenizer = train_tokenizer(BPETokenizer(n_vocab=275), [text])
    spec = resolve(load("gpt2", n_layers=1, d_model=16, n_heads=2, n_vocab=512, max_length=64))
    coarse = task_arm(spec, CausalLM(), words, window=30)
    fine = byte_arm(30)
    item = replace(ITEM, context="the cat sat on the mat and the cat")
    assert prepare([item], [coarse]).n_left_out == 0
    with pytest.raises(SpecError, match="has no item that fits every model"):
        prepare([item], [coarse, fine])


def test_generation_leaves_room_for_the_longest_answer() -> None:
    task = load_task({"kind": "generation", "paths": "x", "source": "{s}", "references": "{r}"})
    items = [
        GenerationItem("a", "", "x" * 10, ("yes",)),
        GenerationItem("b", "", "x" * 14, ("a long answer",)),
    ]
    arm = byte_arm(13 + 10 + 1)
    result = prepare_items(task, items, (), [arm], ZeroShot())
    assert [item.name for item in result.items] == ["a"]


def test_the_number_that_fits_is_none_where_the_item_does_not() -> None:
    arm = byte_arm(30)
    assert demonstrations_that_fit([arm], TASK, ITEM, SHOWN, [3]) is None
    assert demonstrations_that_fit([arm], TASK, ITEM, SHOWN, [5]) == 0


def test_a_task_without_demonstrations_is_refused() -> None:
    with pytest.raises(SpecError, match="has no demonstrations; give it a train split"):
        prepare_items(TASK, [ITEM], (), [byte_arm(30)], FewShot())
