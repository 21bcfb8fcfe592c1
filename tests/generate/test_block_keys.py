import torch
from tiny_model import tiny_architecture

from paribus.generate.block_keys import (
    BlockChain,
    chain_root,
    digest_of,
    has_prefix_rules,
    source_name,
    weights_digest,
)
from paribus.model import build

TOKENS = list(range(40))


def names(root: bytes, tokens: list[int]) -> list[bytes]:
    chain = BlockChain(root)
    chain.extend(tokens)
    return chain.names


def test_a_chain_that_grows_has_the_names_of_one_made_at_once():
    chain = BlockChain(b"root")
    for n_tokens in (3, 16, 17, 31, 40):
        chain.extend(TOKENS[:n_tokens])
        assert len(chain.names) == n_tokens // 16
    assert chain.names == names(b"root", TOKENS)


def test_a_name_holds_every_token_before_its_end():
    changed = [99, *TOKENS[1:]]
    assert not set(names(b"root", TOKENS)) & set(names(b"root", changed))
    late = [*TOKENS[:16], 99, *TOKENS[17:]]
    assert names(b"root", late)[0] == names(b"root", TOKENS)[0]
    assert names(b"root", late)[1] != names(b"root", TOKENS)[1]


def test_equal_blocks_at_other_places_have_other_names():
    twice = names(b"root", [7] * 32)
    assert twice[0] != twice[1]


def test_weights_salt_prefix_and_source_tell_texts_apart():
    roots = {
        chain_root(b"w", b"s", [1, 2], b"x"),
        chain_root(b"v", b"s", [1, 2], b"x"),
        chain_root(b"w", b"t", [1, 2], b"x"),
        chain_root(b"w", b"s", [1], b"x"),
        chain_root(b"w", b"s", [1, 2], b"y"),
        chain_root(b"ws", b"", [1, 2], b"x"),
        source_name(b"w", b"s", [1, 2]),
        source_name(b"w", b"t", [1, 2]),
    }
    assert len(roots) == 8


def test_fields_do_not_run_into_each_other():
    assert digest_of(b"ab", b"c") != digest_of(b"a", b"bc")


def test_a_changed_weight_changes_the_digest():
    model = build(tiny_architecture("gpt2"))
    before = weights_digest(model)
    assert before == weights_digest(build(tiny_architecture("gpt2")))
    with torch.no_grad():
        model.embedding.weight[0, 0] += 1
    assert before != weights_digest(model)
    assert weights_digest(model.bfloat16()) != before


def test_only_some_masks_ask_where_a_prefix_ends():
    assert not has_prefix_rules(build(tiny_architecture("gpt2")))
    assert has_prefix_rules(build(tiny_architecture("gpt2", {"mask": "prefix"})))
