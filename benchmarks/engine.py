"""Requests answered by an engine, several at a time, against one after the other, in one run.

    python benchmarks/engine.py                     # 4 layers of 128, on this CPU
    python benchmarks/engine.py --preset t5 --temperature 1
    python benchmarks/engine.py --device cuda --d-model 768 --layers 12 --dtype bfloat16

Weights are random. Every round answers the same requests: first each alone, by `continuation`, then
over an engine with so many rows, which begins with no block. Ratios are of tokens a second, medians
over rounds. Answers that differ from those given alone are counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import median

import torch

from paribus.corpus.dataset import vocabulary_of
from paribus.corpus.tokenizer import byte_tokenizer
from paribus.generate import Engine, Sampling, TokenRequest, continuation
from paribus.generate.choosing import RowStream
from paribus.model import Transformer, build
from paribus.objectives.framing import Ids, ItemLayout, plain_layout
from paribus.spec import load

WINDOW = 512
MIN_CONTEXT, MAX_CONTEXT = 32, 96  # tokens
D_HEAD = 32
Answers = list[Ids]


def requests_of(layout: ItemLayout, asked: argparse.Namespace) -> list[TokenRequest]:
    generator = torch.Generator().manual_seed(0)
    requests = []
    for number in range(asked.requests):
        length = int(torch.randint(MIN_CONTEXT, MAX_CONTEXT, (), generator=generator))
        inputs = torch.randint(97, 123, (length,), generator=generator).tolist()
        sampling = Sampling(n_tokens=asked.tokens, temperature=asked.temperature, seed=number)
        stream = RowStream(number)
        requests.append(TokenRequest(tuple(inputs), layout, sampling, stream))
    return requests


def answer_alone(model: Transformer, requests: Sequence[TokenRequest]) -> Answers:
    answers, device = [], model.embedding.weight.device
    for request in requests:
        inputs_1T = torch.tensor([request.inputs], device=device)
        said = continuation(model, request.layout, inputs_1T, request.sampling)
        tokens = said.tokens_BT[0, : said.lengths_B[0]].tolist()
        ends = request.layout.end_tokens
        answers.append(tuple(token for token in tokens if token not in ends))
    return answers


def answer_together(engine: Engine, requests: Sequence[TokenRequest]) -> Answers:
    handles = [engine.submit(request) for request in requests]
    while not engine.is_idle:
        engine.step()
    answers = []
    for handle in handles:
        answers.append(tuple(one.token for one in handle.said_tokens))
    return answers


def time_of(work: Callable[[], Answers], device: torch.device) -> tuple[float, Answers]:
    begin = time.perf_counter()
    answers = work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin, answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="gpt2")
    parser.add_argument("--d-model", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    asked = parser.parse_args()
    device = torch.device(asked.device)
    vocabulary = vocabulary_of(byte_tokenizer())
    sizes = {
        "n_vocab": vocabulary.size,
        "max_length": WINDOW,
        "d_model": asked.d_model,
        "n_layers": asked.layers,
        "attention.n_heads": asked.d_model // D_HEAD,
        "attention.d_head": D_HEAD,
    }
    model = build(load(asked.preset, changes=sizes)).to(device, getattr(torch, asked.dtype)).eval()
    layout = plain_layout(model.spec, vocabulary, WINDOW)
    requests = requests_of(layout, asked)
    speeds: dict[int, list[float]] = {n_rows: [] for n_rows in (0, *asked.rows)}
    n_different = dict.fromkeys(asked.rows, 0)
    n_tokens = 0
    for number in range(asked.rounds + 1):
        seconds, alone = time_of(lambda: answer_alone(model, requests), device)
        n_tokens = sum(map(len, alone))
        round_speeds = {0: n_tokens / seconds}
        for n_rows in asked.rows:
            engine = Engine(model, 2**30, max_rows=n_rows)
            seconds, answers = time_of(
                lambda engine=engine: answer_together(engine, requests), device
            )
            round_speeds[n_rows] = n_tokens / seconds
            for one, other in zip(alone, answers, strict=True):
                n_different[n_rows] += one != other
        if number:  # the first round warms up
            for n_rows, speed in round_speeds.items():
                speeds[n_rows].append(speed)
    print(f"{asked.preset}, {len(requests)} requests, {n_tokens} tokens, {device}, {asked.dtype}")
    print(f"one after the other {median(speeds[0]):8.0f} tokens/s")
    for n_rows in asked.rows:
        ratios = [own / base for own, base in zip(speeds[n_rows], speeds[0], strict=True)]
        print(
            f"engine, {n_rows:3} rows    {median(speeds[n_rows]):8.0f} tokens/s,"
            f" {median(ratios):.2f} times ({min(ratios):.2f}-{max(ratios):.2f}),"
            f" {n_different[n_rows]} answers differ"
        )


if __name__ == "__main__":
    main()
