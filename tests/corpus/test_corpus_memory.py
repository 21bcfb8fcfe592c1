"""Nothing of the size of the corpus is held in memory."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, threading, time
from pathlib import Path
from paribus.corpus import prepare_corpus
from paribus.spec import Corpus

def anonymous():
    lines = open("/proc/self/status")
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon"))

peak = before = anonymous()
def watch():
    global peak
    while True:
        peak = max(peak, anonymous())
        time.sleep(0.005)
threading.Thread(target=watch, daemon=True).start()
source = {"kind": "files", "paths": sys.argv[1]}
tokenizer = {"kind": "bytes"}
if sys.argv[3] != "bytes":
    tokenizer = {"kind": "bpe", "n_vocab": int(sys.argv[3])}
spec = Corpus.model_validate({"sources": source, "tokenizer": tokenizer})
corpus = prepare_corpus(spec, Path(sys.argv[2]), False)
for k in range(20):
    corpus.text_batch("train", 1, k * 999, 32, 256)
print(peak - before, corpus.index.sources[0].splits["train"].n_bytes)
"""


def grown(text: Path, cache: Path, tokenizer: str) -> tuple[int, int]:
    """Megabytes by which a process grew while it built and read, and the bytes it read."""
    program = [sys.executable, "-c", PROGRAM, str(text), str(cache), tokenizer]
    told = subprocess.run(
        program, capture_output=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    megabytes, size = told.stdout.split()
    return int(megabytes), int(size)


def written(path: Path, megabytes: int) -> Path:
    """Text with fifty thousand different words."""
    block = b"".join(b"%x words follow.\n\n" % (at * 31 % 200_003) for at in range(48_000))
    with path.open("wb") as file:
        for number in range(megabytes):
            file.write(b"%d\n" % number + block)
    return path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its memory")
def test_a_hundred_megabytes_of_bytes_take_little_memory(tmp_path):
    megabytes, size = grown(written(tmp_path / "long.txt", 100), tmp_path / "cache", "bytes")
    assert size > 75_000_000
    assert megabytes < 75


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its memory")
def test_two_hundred_megabytes_of_byte_pairs_take_little_memory(tmp_path):
    megabytes, size = grown(written(tmp_path / "long.txt", 200), tmp_path / "cache", "4096")
    assert size > 150_000_000
    assert megabytes < 600
