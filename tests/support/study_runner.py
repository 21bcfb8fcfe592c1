"""A study to be killed: `python study_runner.py DESIGN CACHE` runs it in each folder it is
told, one line a folder.

Each attempt is a process of its own, forked before anything was computed, so that torch is imported
once. Its number is said as it begins, its exit status when it has ended.
"""

import os
import sys
from importlib import import_module

import torch

import paribus.cli.run as verb
from paribus.cli import main

assert verb


def attempt_study(design: str, cache: str, runs: str) -> int:
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    return main(
        ["run", design, "--name", "killed", "--runs", runs, "--cache", cache, "--device", "cpu"]
    )


def serve_attempts(design: str, cache: str) -> None:
    torch.set_num_threads(1)
    import_module("torch._dynamo")  # or the optimizer would, at the first step of every attempt
    print("ready", flush=True)
    while line := sys.stdin.readline():
        process = os.fork()
        if process == 0:
            os._exit(attempt_study(design, cache, line.strip()))
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    serve_attempts(*sys.argv[1:3])
