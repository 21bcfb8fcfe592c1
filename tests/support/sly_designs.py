"""A small honest run, designs that are laid over it as TOML, and what `plan` makes of them."""

import tomllib
from pathlib import Path
from typing import Any

from paribus.design import Plan, find_design, make_plan
from paribus.spec.merging import merge_tables
from paribus.workspace import Execution, Workspace

# A design that leaves any of these out has them.
USUAL = """
question = "Which arm does better?"
baseline = "plain"
seeds = 3
tune = false
primary = { measure = { kind = "halves", n_items = 4, max_bytes = 24 }, margin = 0.1 }

[base]
objective = "prefix"

[base.architecture]
preset = "gpt2"
positions = "rotary"
n_layers = 2
d_model = 16
attention = { n_heads = 2 }
dropout = 0.0

[base.corpus]
sources = [{ kind = "translation", n_documents = 400, form = "text" }]

[base.training]
n_steps = 12
n_sequences = 4
length = 32
warmup = 2
row_every = 6
valid_every = 6
valid_batches = 1
checkpoint_every = 6
optimizer = { rate = 1e-2 }
"""


def sly_table(text: str) -> dict[str, Any]:
    """A design, as TOML, over the usual one."""
    return merge_tables(tomllib.loads(USUAL), tomllib.loads(text))


def plan_text(text: str, cache: Path) -> Plan:
    """The plan of a design that is given as TOML; nothing is trained."""
    return plan_table(sly_table(text), cache)


def plan_table(table: dict[str, Any], cache: Path) -> Plan:
    name, design = find_design(table)
    execution = Execution(Workspace(cache=cache, device="cpu"))
    return make_plan(design, name, None, execution, show_progress=False)
