"""Answers of paribus against transformers' `generate`, greedily, with the same shapes, in one run.

    python benchmarks/generation.py                       # 4 layers of 256, batches of 1 and 8
    python benchmarks/generation.py --context 768 --d-model 128

Weights are random. Rounds are interleaved, after one that pays for recordings and for what
libraries prepare. Speeds are tokens a second, medians over rounds, with their quartiles. The last
lines compare sampling with greedy choice, and a long context with a short one. A drawn token may
end an answer early, and then its context weighs more.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median, quantiles

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from paribus.corpus.dataset import vocabulary_of
from paribus.corpus.tokenizer import byte_tokenizer
from paribus.generate import Sampling, continuation
from paribus.model import Transformer, build
from paribus.objectives.framing import plain_layout
from paribus.spec import load

N_VOCAB = 4096
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
            measured[name].append(n_tokens / (time.perf_counter() - begin))
    return measured


def ours(model: Transformer, contexts_BT: torch.Tensor, sampling: Sampling) -> Answer:
    layout = plain_layout(
        model.spec, vocabulary_of(byte_tokenizer()), model.spec.max_length, context_is_prefix=False
    )

    def answer() -> int:
        return int(continuation(model, layout, contexts_BT, sampling).lengths_B.sum())

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
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    n_heads, max_length = max(1, asked.d_model // D_HEAD), 1024
    changes = {
        "n_layers": asked.layers,
        "d_model": asked.d_model,
        "attention.n_heads": n_heads,
        "n_vocab": N_VOCAB,
        "max_length": max_length,
    }
    model = build(load("gpt2", changes=changes)).eval()
    config = GPT2Config(
        n_layer=asked.layers,
        n_embd=asked.d_model,
        n_head=n_heads,
        vocab_size=N_VOCAB,
        n_positions=max_length,
        bos_token_id=None,
        eos_token_id=None,
    )
    peer = GPT2LMHeadModel(config).eval()
    torch.manual_seed(0)
    greedy = Sampling(n_tokens=asked.tokens)
    drawn = Sampling(n_tokens=asked.tokens, temperature=1.0)
    for n_rows in (1, 8):
        contexts = torch.randint(0, 200, (n_rows, asked.context))
        short = torch.randint(0, 200, (n_rows, SHORT))
        found = speeds(
            {
                "paribus": ours(model, contexts, greedy),
                "transformers": theirs(peer, contexts, asked.tokens),
                "paribus, drawn": ours(model, contexts, drawn),
                f"paribus, context {SHORT}": ours(model, short, greedy),
            },
            asked.rounds,
        )
        for name, own in found.items():
            low, _, high = quantiles(own)
            print(f"batch {n_rows}: {name}: {median(own):.0f} tokens/s ({low:.0f} to {high:.0f})")
        base = median(found["paribus"])
        print(f"  over transformers {base / median(found['transformers']):.2f}")
        print(f"  drawn over greedy {median(found['paribus, drawn']) / base:.2f}")
        print(f"  over a context of {SHORT}: {base / median(list(found.values())[-1]):.2f}")


if __name__ == "__main__":
    main()
