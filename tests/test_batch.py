import pytest
import torch

from paribus.batch import Batch, BatchLayout, Vocabulary
from paribus.errors import SpecError, UnsupportedError
from paribus.vocabulary import vocabulary_with_roles

CPU = torch.device("cpu")


def test_the_layout_of_a_batch_follows_from_its_tokens():
    tokens = torch.arange(15).view(3, 5)
    batch = Batch.of(tokens, prefix=2)
    assert batch.tokens_BT is tokens
    assert (
        batch.layout.n_sequences,
        batch.layout.length,
        batch.layout.start,
        batch.layout.prefix,
    ) == (3, 5, 0, 2)
    assert batch.source is None
    assert batch.layout.documents_BT is batch.layout.real_BT is batch.layout.positions_BT is None


def test_tokens_are_positions_without_padding_and_a_source_is_added():
    tokens, real = (
        torch.zeros(2, 5, dtype=torch.long),
        torch.tensor([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]).bool(),
    )
    source = Batch.of(torch.zeros(2, 7, dtype=torch.long), real_BT=torch.arange(7).expand(2, 7) < 3)
    assert (Batch.of(tokens).n_tokens, Batch.of(tokens).n_positions) == (10, 10)
    batch = Batch.of(tokens, real_BT=real, source=source)
    assert (batch.n_tokens, batch.n_positions) == (4 + 6, 10 + 14)


def test_everything_given_arrives_where_it_belongs():
    tokens, source = (
        torch.zeros(2, 3, dtype=torch.long),
        Batch.of(torch.ones(2, 7, dtype=torch.long)),
    )
    documents, positions, segments = (torch.randint(5, (2, 3)) for _ in range(3))
    real = torch.ones(2, 3, dtype=torch.bool)
    rows, prefix = torch.tensor([5, 11]), torch.tensor([1, 2])
    batch = Batch.of(
        tokens,
        prefix=prefix,
        documents_BT=documents,
        real_BT=real,
        positions_BT=positions,
        source=source,
    )
    batch = batch.with_segments(segments).with_rows(rows)
    assert batch.layout.prefix is prefix
    assert batch.layout.documents_BT is documents
    assert batch.layout.real_BT is real
    assert batch.layout.positions_BT is positions
    assert batch.segments_BT is segments
    assert batch.source is source
    assert batch.rows_B is rows


def test_a_source_may_be_given_as_tokens():
    batch = Batch.of(torch.zeros(2, 3, dtype=torch.long), source=torch.ones(2, 7, dtype=torch.long))
    assert batch.source is not None
    assert (batch.source.layout.n_sequences, batch.source.layout.length) == (2, 7)
    assert batch.source.layout.prefix == 7
    assert batch.source.source is None


def test_positions_count_from_the_start_of_the_layout():
    assert BatchLayout(2, 3).positions(CPU).tolist() == [0, 1, 2]
    assert BatchLayout(2, 3, start=5).positions(CPU).tolist() == [5, 6, 7]


def test_given_positions_win_over_the_place_in_the_sequence():
    given = torch.tensor([[0, 1, 0], [4, 5, 6]])
    assert BatchLayout(2, 3, start=5, positions_BT=given).positions(CPU) is given


WORDS = torch.zeros(2, 3, dtype=torch.long)
WRONG = [
    (
        {"tokens_BT": torch.zeros(3, dtype=torch.long)},
        r"tokens are torch.int64 \[3\]; give a tensor of whole numbers",
    ),
    ({"tokens_BT": [[1, 2]]}, "tokens are list; give a tensor of whole numbers"),
    ({"tokens_BT": torch.zeros(2, 3)}, "tokens are torch.float32"),
    (
        {"documents_BT": torch.zeros(2, 4)},
        r"documents_BT is torch.float32 \[2, 4\] beside tokens torch.int64 \[2, 3\]",
    ),
    (
        {"real_BT": torch.ones(2, 3)},
        "real_BT holds torch.float32; give torch.bool, True where there is a token",
    ),
    ({"prefix": -3}, "prefix is -3 of length 3; use 0 to 3"),
    ({"prefix": 4}, "prefix is 4 of length 3; use 0 to 3"),
    ({"prefix": 2.5}, "prefix is 2.5 of length 3; use 0 to 3"),
    (
        {"prefix": torch.zeros(3, dtype=torch.long)},
        r"prefix is torch.int64 \[3\]; give a whole number for each of 2",
    ),
    (
        {"source": torch.zeros(1, 5, dtype=torch.long)},
        "source has 1 sequences beside 2, or a source of its own",
    ),
    (
        {"source": Batch.of(WORDS, source=WORDS)},
        "source has 2 sequences beside 2, or a source of its own",
    ),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_a_batch_that_does_not_fit_together_is_refused(given, message):
    with pytest.raises(SpecError, match=message):
        Batch.of(**({"tokens_BT": WORDS} | given))


def test_segments_of_another_shape_are_refused():
    message = r"^segments_BT is torch.int64 \[2, 4\] beside tokens .*; give one of their shape$"
    with pytest.raises(SpecError, match=message):
        Batch.of(WORDS).with_segments(torch.zeros(2, 4, dtype=torch.long))


OWN = {"begin": 3, "end": 3, "gap 0": 9, "gap 1": 8}


def own_vocabulary() -> Vocabulary:
    return Vocabulary(10, torch.arange(10), OWN)


def test_sentinels_of_an_imported_tokenizer_are_looked_up() -> None:
    vocabulary = own_vocabulary()
    assert [vocabulary.sentinel(0), vocabulary.sentinel(1)] == [9, 8]
    found = vocabulary.sentinel(torch.tensor([-1, 1, 0]))
    assert torch.equal(torch.as_tensor(found), torch.tensor([9, 8, 9]))
    message = r"no special token 'gap 2' \(it has begin, end, 2 sentinels\)"
    with pytest.raises(UnsupportedError, match=message):
        vocabulary.sentinel(2)


def test_what_fills_a_row_need_not_be_a_special_token() -> None:
    assert own_vocabulary().pad == 3
    assert Vocabulary(10, torch.arange(10), {}).pad == 0
    assert not Vocabulary(10, torch.arange(10), {}).has_bos


def test_tokens_of_roles_are_added_after_all_ids() -> None:
    vocabulary = vocabulary_with_roles(own_vocabulary())
    assert vocabulary.role_tokens == {"system": 10, "user": 11, "assistant": 12}
    assert (vocabulary.end_of_turn, vocabulary.size, vocabulary.n_text) == (13, 14, 10)
    assert vocabulary.bytes_V[10:].tolist() == [0, 0, 0, 0]
    assert vocabulary_with_roles(vocabulary).size == 14
    ours = Vocabulary(10, torch.zeros(117))
    assert vocabulary_with_roles(ours) is ours
