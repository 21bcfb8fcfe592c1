"""Answers of paribus against transformers' `generate`, greedily, with the same shapes, in one run.

    python benchmarks/generation.py                       # 4 layers of 256, batches of 1 and 8
    python benchmarks/generation.py --context 768 --d-model 128
    python benchmarks/generation.py --layers 12 --d-model 768 --vocab 50257 --batches 1 32 \
        --device cuda --dtype bfloat16

Weights are random. Rounds are interleaved, after one that pays for recordings and for what
libraries prepare. Speeds are tokens a second with the reading of the context, medians over rounds,
with their quartiles. No token ends an answer, here or there, so that all are of one length. The
last lines compare sampling with greedy choice, and a long context with a short one: as a whole, and
without the time to the first token.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import fields
from statistics import median, quantiles

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from paribus.corpus.dataset import vocabulary_of
from paribus.corpus.tokenizer import byte_tokenizer
from paribus.generate import Sampling, continuation
from paribus.model import Transformer, build
from paribus.objectives.framing import Ids, ItemLayout, plain_layout
from paribus.spec import load

D_HEAD = 64
SHORT = 64  # tokens of a context
Answer = Callable[[], int]  # how many tokens were said


def speeds(answers: dict[str, Answer], n_rounds: int) -> dict[str, list[float]]:
    """Tokens a second of each, round by round, after one round that is not counted."""
    measured: dict[str, list[float]] = {name: [] for name in answers}
    for answer in answers.values():
        answer()
    for _ in range(n_rounds):
        for name, answer in answers.items():
            begin = time.perf_counter()
            n_tokens = answer()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            measured[name].append(n_tokens / (time.perf_counter() - begin))
    return measured


class EndlessLayout(ItemLayout):
    """A layout in which no token ends an answer, as the peer has none."""

    @property
    def end_tokens(self) -> Ids:
        return ()


def endless_layout(model: Transformer) -> EndlessLayout:
    plain = plain_layout(
        model.spec, vocabulary_of(byte_tokenizer()), model.spec.max_length, context_is_prefix=False
    )
    return EndlessLayout(**{one.name: getattr(plain, one.name) for one in fields(plain)})


def ours(model: Transformer, contexts_BT: torch.Tensor, sampling: Sampling) -> Answer:
    layout = endless_layout(model)

    def answer() -> int:
        said = continuation(model, layout, contexts_BT, sampling)
        assert said.lengths_B.tolist() == [sampling.n_tokens] * len(contexts_BT)
        return len(contexts_BT) * sampling.n_tokens

    return answer


def theirs(model: GPT2LMHeadModel, contexts_BT: torch.Tensor, n_tokens: int) -> Answer:
    def answer() -> int:
        with torch.inference_mode():
            model.generate(  # pyright: ignore[reportAttributeAccessIssue]
                contexts_BT,
                max_new_tokens=n_tokens,
                min_new_tokens=n_tokens,
                do_sample=False,
                pad_token_id=0,
            )
        return len(contexts_BT) * n_tokens

    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--context", type=int, default=SHORT)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    n_heads, max_length = max(1, asked.d_model // D_HEAD), 1024
    changes = {
        "n_layers": asked.layers,
        "d_model": asked.d_model,
        "attention.n_heads": n_heads,
        "n_vocab": asked.vocab,
        "max_length": max_length,
    }
    device, dtype = torch.device(asked.device), getattr(torch, asked.dtype)
    model = build(load("gpt2", changes=changes), device=device, dtype=dtype).eval()
    config = GPT2Config(
        n_layer=asked.layers,
        n_embd=asked.d_model,
        n_head=n_heads,
        vocab_size=asked.vocab,
        n_positions=max_length,
        bos_token_id=None,
        eos_token_id=None,
    )
    peer = GPT2LMHeadModel(config).eval()
    peer.to(device=device, dtype=dtype)  # pyright: ignore[reportCallIssue]
    torch.manual_seed(0)
    greedy = Sampling(n_tokens=asked.tokens)
    drawn = Sampling(n_tokens=asked.tokens, temperature=1.0)
    first = Sampling(n_tokens=1)
    for n_rows in asked.batches:
        contexts = torch.randint(0, 200, (n_rows, asked.context)).to(device)
        short = torch.randint(0, 200, (n_rows, SHORT)).to(device)
        found = speeds(
            {
                "paribus": ours(model, contexts, greedy),
                "transformers": theirs(peer, contexts, asked.tokens),
                "paribus, drawn": ours(model, contexts, drawn),
                "paribus, one token": ours(model, contexts, first),
                f"paribus, context {SHORT}": ours(model, short, greedy),
                f"paribus, context {SHORT}, one token": ours(model, short, first),
            },
            asked.rounds,
        )
        for name, own in found.items():
            low, _, high = quantiles(own)
            print(f"batch {n_rows}: {name}: {median(own):.0f} tokens/s ({low:.0f} to {high:.0f})")
        show_ratios({name: median(own) for name, own in found.items()}, asked.tokens)


def show_ratios(found: dict[str, float], n_tokens: int) -> None:
    greedy, short = found["paribus"], found[f"paribus, context {SHORT}"]
    later = speed_after_first(greedy, found["paribus, one token"], n_tokens)
    later_short = speed_after_first(short, found[f"paribus, context {SHORT}, one token"], n_tokens)
    print(f"  over transformers {greedy / found['transformers']:.2f}")
    print(f"  drawn over greedy {found['paribus, drawn'] / greedy:.2f}")
    print(f"  over a context of {SHORT}: {greedy / short:.2f}")
    print(f"  over a context of {SHORT}, after the first token: {later / later_short:.2f}")


def speed_after_first(whole: float, first: float, n_tokens: int) -> float:
    """Tokens a second after the first one, from the speeds of all of them and of one alone."""
    return (n_tokens - 1) / (n_tokens / whole - 1 / first)


if __name__ == "__main__":
    main()
