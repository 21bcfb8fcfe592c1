"""Caches are values: extended twice they do not disturb each other, rows can be chosen, and windows
free their old keys.
"""

from dataclasses import replace

import pytest
import torch
from tiny_model import random_tokens, tiny_architecture

from paribus.batch import Batch
from paribus.errors import SpecError, UnsupportedError
from paribus.model import Transformer, build
from paribus.model.cache import MIN_SPARE
from paribus.objectives.problem_layout import document_positions
from paribus.spec import MultiHead
from paribus.spec.price import price

TOKENS = random_tokens(2, 20)


def model_of(preset: str = "gpt2", **changes: object) -> Transformer:
    return build(tiny_architecture(preset, changes)).double()


def fresh(model: Transformer, tokens: torch.Tensor) -> torch.Tensor:
    source = None if model.encoder is None else TOKENS[: len(tokens), :5]
    return model.hidden_states(Batch.of(tokens, source=source)).states_BTD


@pytest.mark.parametrize("preset", ["gpt2", "llama", "deepseek-v3", "t5"])
def test_tokens_one_by_one_are_as_all_at_once(preset: str) -> None:
    model = model_of(preset)
    source = None if model.encoder is None else TOKENS[:, :5]
    out = model.read(Batch.of(TOKENS[:, :3], source=source))
    for place in range(3, 20):
        out = model.append(TOKENS[:, place : place + 1], out.cache)
        expected = fresh(model, TOKENS[:, : place + 1])[:, -1:]
        torch.testing.assert_close(out.states_BTD, expected)
    assert out.cache.lengths == (20, 20)


def test_a_cache_may_be_extended_twice() -> None:
    model = model_of()
    cache = model.read(Batch.of(TOKENS[:, :6]), reserve=20).cache
    other = torch.flip(TOKENS, (1,))
    one = model.append(TOKENS[:, 6:9], cache)
    two = model.append(other[:, 6:9], cache)
    again = model.append(TOKENS[:, 9:10], one.cache)
    torch.testing.assert_close(again.states_BTD, fresh(model, TOKENS[:, :10])[:, -1:])
    mixed = torch.cat([TOKENS[:, :6], other[:, 6:9]], 1)
    torch.testing.assert_close(two.states_BTD, fresh(model, mixed)[:, -3:])


def test_who_makes_room_does_not_write_over_another() -> None:
    """A window's keys move when room is made; those of the other layers stay where they are."""
    model = model_of(mask="by_layer(window(4), causal)", max_length=400)
    text, other = random_tokens(1, 400), random_tokens(1, 400, seed=1)
    cache = model.read(Batch.of(text[:, :300]), reserve=400).cache
    cache = replace(cache, stack=cache.stack.compact())
    assert cache.stack.layers[0][0].shape[2] < 3 + 65 < cache.stack.layers[3][0].shape[2]
    one = model.append(text[:, 300:365], cache)
    model.append(other[:, 300:365], cache)
    last = model.append(text[:, 365:366], one.cache)
    torch.testing.assert_close(last.states_BTD, fresh(model, text[:, :366])[:, -1:])


def test_rows_may_be_chosen_and_repeated() -> None:
    model = model_of()
    real_BT = torch.arange(6) < torch.tensor([[6], [4]])
    cache = model.read(Batch.of(TOKENS[:, :6], real_BT=real_BT)).cache
    chosen = cache.select_rows([1, 0, 1])
    assert chosen.lengths == (4, 6, 4)
    out = model.append(TOKENS[[1, 0, 1], 9:10], chosen)
    text = torch.cat([TOKENS[1:, :4], TOKENS[1:, 9:10]], 1)
    torch.testing.assert_close(out.states_BTD[2:], fresh(model, text)[:, -1:])
    source = model_of("t5").read(Batch.of(TOKENS[:, :2], source=TOKENS[:, :5])).cache
    assert source.select_rows([1]).source is not None


def test_a_window_frees_its_old_keys() -> None:
    model = model_of(mask="by_layer(window(4), causal)", max_length=400)
    text = random_tokens(1, 400)
    out = model.read(Batch.of(text[:, :2]))
    for place in range(2, 400):
        out = model.append(text[:, place : place + 1], out.cache)
    torch.testing.assert_close(out.states_BTD, fresh(model, text)[:, -1:])
    stack = out.cache.stack
    assert stack.kept_places(0, 0) == [397, 398, 399]
    assert stack.kept_places(3, 0) == list(range(400))
    assert stack.layers[0][0].shape[2] <= 2 * MIN_SPARE
    assert out.cache.n_bytes < 0.7 * 4 * 2 * 400 * 6 * 6 * 8


@pytest.mark.parametrize("preset", ["gpt2", "t5", "llama"])
def test_a_key_is_freed_for_the_heads_that_no_longer_need_it(preset: str) -> None:
    model = model_of(preset, mask="by_head(window(4), causal)", max_length=400)
    text, source = random_tokens(1, 400), None if preset != "t5" else TOKENS[:1, :5]
    out = model.read(Batch.of(text[:, :200], source=source), reserve=400)
    assert out.cache.stack.kept_places_by_group(0, 0) == [[197, 198, 199], list(range(200))]
    for place in range(200, 330):
        out = model.append(text[:, place : place + 1], out.cache)
    torch.testing.assert_close(out.states_BTD, fresh(model, text[:, :330])[:, -1:])
    stack = out.cache.stack
    assert stack.kept_places(3, 0) == list(range(330))
    few, _, all_of_them, _ = stack.layers[3]
    assert few.shape[1] == all_of_them.shape[1] == stack_kv_heads(model) // 2
    assert few.shape[2] <= 3 + MIN_SPARE < 330 <= all_of_them.shape[2]


def stack_kv_heads(model: Transformer) -> int:
    attention = model.spec.stack.layers[0].attention
    assert isinstance(attention, MultiHead)
    assert attention.n_kv_heads is not None
    return attention.n_kv_heads


def test_heads_that_share_keys_share_their_slots() -> None:
    model = model_of("gpt2", **{"mask": "by_head(window(4), causal)", "attention.n_kv_heads": 1})
    cache = model.read(Batch.of(TOKENS)).cache
    assert cache.stack.kept_places_by_group(0, 0) == [list(range(20))]
    latent = model_of("deepseek-v3", mask="by_head(window(4), causal)").read(Batch.of(TOKENS))
    assert latent.cache.stack.kept_places_by_group(0, 0) == [list(range(20))]


def test_a_window_keeps_little_of_a_long_prompt() -> None:
    model = model_of(mask="window(4)", max_length=400)
    cache = model.read(Batch.of(random_tokens(1, 300)), reserve=400).cache
    assert cache.n_bytes == 3 * price(model.spec, bytes_per_value=8).kv_bytes_per_token
    assert cache.stack.layers[0][0].shape[2] <= 3 + MIN_SPARE


def test_room_that_is_reserved_is_not_made_twice() -> None:
    model = model_of()
    first = model.read(Batch.of(TOKENS[:, :6]), reserve=64).cache
    last = model.append(TOKENS[:, 6:12], first).cache
    assert first.stack.layers[0][0].data_ptr() == last.stack.layers[0][0].data_ptr()


def test_a_new_source_is_read_and_the_answer_anew() -> None:
    model = model_of("t5")
    cache = model.read(Batch.of(TOKENS[:, :4], source=TOKENS[:, :5])).cache
    batch = Batch.of(TOKENS[:, :6], source=TOKENS[:, 5:12])
    out = model.read(batch, cache)
    torch.testing.assert_close(out.states_BTD, model.hidden_states(batch).states_BTD)


def test_bad_input_is_refused() -> None:
    model, batch = model_of(), Batch.of(TOKENS[:, :6])
    cache = model.read(batch).cache
    with pytest.raises(SpecError, match="a text has 6 tokens, and the cache holds 6 of it"):
        model.read(batch, cache)
    with pytest.raises(SpecError, match="the cache holds 2 texts beside 1"):
        model.read(Batch.of(TOKENS[:1, :9]), cache)
    with pytest.raises(UnsupportedError, match="reaches position 46, past max_length"):
        model.append(random_tokens(2, 40), cache)
    holes = torch.tensor([[True, False, True]])
    with pytest.raises(SpecError, match="pad on the right"):
        model.read(Batch.of(TOKENS[:1, :3], real_BT=holes))
    bert = model_of("bert")
    full = bert.read(batch).cache
    with pytest.raises(UnsupportedError, match="the mask full changes earlier keys"):
        bert.append(TOKENS[:, 6:7], full)
    with pytest.raises(SpecError, match=r"neither batch\.source nor a cache"):
        model_of("t5").read(batch)
    with pytest.raises(SpecError, match=r"batch\.source is given, but the model has no encoder"):
        model.read(Batch.of(TOKENS[:, :3], source=TOKENS[:, :5]))
    with pytest.raises(SpecError, match="leave out segments_BT"):
        bert.read(batch.with_segments(torch.zeros_like(TOKENS[:, :6])))
    with pytest.raises(SpecError, match="append was given no token"):
        model.append(TOKENS[:, :0], cache)
    from_later = replace(batch, layout=replace(batch.layout, start=2))
    with pytest.raises(SpecError, match="leave out start and places_BT"):
        model.read(from_later)
    moved = Batch.of(TOKENS[:, :8], positions_BT=torch.arange(1, 9).expand(2, -1))
    with pytest.raises(SpecError, match="text 0 has other documents or positions than the cache"):
        model.read(moved, cache)


def test_bad_sources_and_documents_are_refused() -> None:
    model = model_of("t5", mask="causal & same_document")
    documents = torch.tensor([[0, 0, 1], [0, 1, 0]])
    source = Batch.of(TOKENS[:, :3], documents_BT=documents)
    with pytest.raises(SpecError, match="documents_BT of row 1 go back to an earlier document"):
        model.read(Batch.of(TOKENS[:, :3], documents_BT=documents, source=source))
    with pytest.raises(SpecError, match="must both have documents_BT, or neither"):
        model.read(Batch.of(TOKENS[:, :3], source=source))
    with pytest.raises(SpecError, match="the mask causal does not keep documents apart"):
        model_of().read(Batch.of(TOKENS[:, :3], documents_BT=torch.zeros_like(TOKENS[:, :3])))
    cache = model.read(Batch.of(TOKENS[:, :3], source=TOKENS[:, :5])).cache
    with pytest.raises(SpecError, match="a source has 4 tokens, and the cache holds 5 of it"):
        model.read(Batch.of(TOKENS[:, :6], source=TOKENS[:, :4]), cache)
    with pytest.raises(SpecError, match=r"give a longer one, or cache\.without_text\(\)"):
        model.read(Batch.of(TOKENS[:, :2], source=TOKENS[:, :6]), cache)


def test_the_next_answer_begins_anew_beside_a_source_that_grew() -> None:
    model = model_of("t5", **{"encoder.mask": "causal"})
    cache = model.read(Batch.of(TOKENS[:, :4], source=TOKENS[:, :5])).cache
    batch = Batch.of(TOKENS[:, 9:11], source=TOKENS[:, :12])
    out = model.read(batch, cache.without_text())
    torch.testing.assert_close(out.states_BTD, model.hidden_states(batch).states_BTD)
    assert out.source_places_BS is not None
    assert out.source_places_BS.tolist() == [list(range(5, 12))] * 2
    again = model.read(batch, out.cache.without_text())
    assert again.source_places_BS is not None
    assert again.source_places_BS.shape == (2, 0)
    torch.testing.assert_close(again.states_BTD, out.states_BTD)


def test_each_turn_of_a_conversation_is_encoded_alone() -> None:
    """Its keys are those of the turn by itself, and what was said before is not read again."""
    changes = {"encoder.mask": "same_document", "encoder.cross": "documents_so_far"}
    model = model_of("t5", **changes)
    cache, n_said = None, 0
    documents = torch.arange(12).expand(2, -1) // 4
    for turn in range(1, 4):
        asked, said = TOKENS[:, : 4 * turn], TOKENS.flip(1)[:, : 4 * turn]
        of_turn = documents[:, : 4 * turn]
        source = Batch.of(asked, documents_BT=of_turn, positions_BT=document_positions(of_turn))
        batch = Batch.of(said, documents_BT=of_turn, source=source)
        first = Batch.of(said[:, :-2], documents_BT=of_turn[:, :-2], source=source)
        out = model.read(first, cache)
        assert out.source_places_BS is not None
        assert out.source_places_BS.tolist() == [list(range(4 * turn - 4, 4 * turn))] * 2
        assert out.places_BT.tolist() == [list(range(n_said, 4 * turn - 2))] * 2
        out = model.append(said[:, -2:], out.cache)
        cache, n_said = out.cache, 4 * turn
        torch.testing.assert_close(out.states_BTD, model.hidden_states(batch).states_BTD[:, -2:])
    assert cache is not None
    assert cache.source is not None
    alone = model.read(Batch.of(TOKENS[:, :1], source=TOKENS[:, 8:12])).cache.source
    assert alone is not None
    torch.testing.assert_close(cache.source.layers[1][0][:, :, 8:], alone.layers[1][0])


@pytest.mark.parametrize("preset", ["gpt2", "llama", "deepseek-v3", "t5", "encdec-causal-encoder"])
def test_a_cache_has_the_bytes_that_its_price_says(preset: str) -> None:
    model = model_of(preset)
    source = None if model.encoder is None else TOKENS[:, :5]
    cost = price(model.spec, bytes_per_value=8)
    expected = 2 * 7 * cost.kv_bytes_per_token
    if source is not None:
        own = cost.encoder_kv_bytes_per_source_token
        expected += 2 * 5 * (cost.kv_bytes_per_source_token + own)
    cache = model.read(Batch.of(TOKENS[:, :7], source=source)).cache
    assert cache.n_bytes == expected
