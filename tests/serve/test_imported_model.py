"""An imported model with a chat template of its own is talked to through the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from chat_template import BEGIN, CHATML, END, byte_library
from running_server import running_server
from transformers import LlamaConfig, LlamaForCausalLM

import paribus as pb

LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
TALK: dict[str, Any] = {
    "model": "imported",
    "messages": [{"role": "user", "content": "hi"}],
    "max_tokens": 7,
    "temperature": 0,
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny Llama, imported with its tokenizer and its template."""
    folder = tmp_path_factory.mktemp("imported")
    config = LlamaConfig(
        vocab_size=258,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=128,
        bos_token_id=BEGIN,
        eos_token_id=END,
    )
    LlamaForCausalLM(config).save_pretrained(folder / "theirs")
    byte_library().save(str(folder / "theirs" / "tokenizer.json"))
    table = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "chat_template": CHATML}
    (folder / "theirs" / "tokenizer_config.json").write_text(json.dumps(table))
    pb.import_(folder / "theirs", out=folder / "runs" / "imported")
    return folder / "runs"


def test_its_template_frames_the_conversation(imported: Path) -> None:
    with running_server(imported, (str(imported / "imported"),)) as server:
        card = httpx.get(f"{server.url}/v1/models").json()["data"][0]
        assert card["can_chat"]
        chat = httpx.post(f"{server.url}/v1/chat/completions", json=TALK, timeout=60).json()
        framed = [BEGIN, *b"user\nhi", END, *b"\n", BEGIN, *b"assistant\n"]
        assert chat["usage"]["prompt_tokens"] == len(framed)
        reference = LlamaForCausalLM.from_pretrained(imported.parent / "theirs")
        said = reference.generate(
            torch.tensor([framed]),
            attention_mask=torch.ones(1, len(framed), dtype=torch.int64),
            max_new_tokens=7,
            do_sample=False,
            pad_token_id=END,
        )[0, len(framed) :].tolist()
        while said and said[-1] == END:
            said.pop()
        text = bytes(one for one in said if one < 256).decode(errors="replace")
        assert chat["choices"][0]["message"]["content"] == text
        assert chat["usage"]["completion_tokens"] == len(said)


def test_a_template_that_loops_is_a_refusal_and_the_next_request_is_answered(
    imported: Path,
) -> None:
    path = imported / "imported" / "chat_template.jinja"
    path.write_text("{% if messages | length > 1 %}" + LOOPS + "{% endif %}" + CHATML)
    try:
        with running_server(imported, (str(imported / "imported"),)) as server:
            url = f"{server.url}/v1/chat/completions"
            twice = {**TALK, "messages": TALK["messages"] * 2}
            refused = httpx.post(url, json=twice, timeout=60)
            assert refused.status_code == 400
            assert "takes more than 1 s or 256 MiB" in refused.json()["error"]["message"]
            long = {
                **TALK,
                "messages": [*TALK["messages"], {"role": "user", "content": "x" * 9999}],
            }
            unread = httpx.post(url, json=long, timeout=60)  # and its template is not asked
            assert "which are at least 10,001 tokens" in unread.json()["error"]["message"]
            assert httpx.post(url, json=TALK, timeout=60).status_code == 200
    finally:
        path.unlink()
