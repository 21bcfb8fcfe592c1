"""What the files and folders of a run, a checkpoint and a study are called; written here and
nowhere else.
"""

# A run: record/folder.py draws its folder.
SPEC_FILE = "spec.json"  # of a run its chain of stages, of a checkpoint its architecture
ENVIRONMENT_FILE = "environment.json"
ROWS_FILE = "rows.jsonl"
CHECKPOINTS = "checkpoints"
EVALUATIONS = "evaluations"
LM_EVAL = "lm-eval"  # samples of lm-evaluation-harness
STATE_FILE = "state"
OWN_PAIRS_FILE = "own-pairs.jsonl"  # pairs of the responses of the model that a stage begins with
CHECKSUMS_FILE = "checksums.jsonl"
LOCK_FILE = "lock"

# A checkpoint: its spec, and beside it
CHECKPOINT_FILE = "checkpoint.json"
WEIGHTS_FILE = "weights.safetensors"
LEARNING_FILE = "learning.safetensors"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
ADDED_TOKENS_FILE = "added_tokens.json"
CHAT_TEMPLATE_FILE = "chat_template.jinja"  # of a run that was trained on conversations
ORIGIN_FILE = "origin.json"
OBJECTIVE_FILE = "objective.json"  # of an imported checkpoint: what it was trained to predict
LABEL_HEAD_FILE = "label-head.safetensors"  # of a stage that gives labels, with
LABELS_FILE = "labels.json"
MANIFEST_FILE = "manifest.json"

# A study: record/study.py draws its folder.
STUDIES = "studies"  # beside the runs: a folder of studies
PLAN_FILE = "plan.json"
PLAN_LOCK_FILE = "plan.lock"
CELLS_FILE = "cells.json"
RATES_FILE = "rates.json"
STAGE_RATES_FILE = "stage-rates.json"  # of the stages before the last
LADDER_RATES_FILE = "ladder-rates.json"  # of sweeps at sizes of a ladder, and what follows
SAMPLES_FILE = "samples.json"
ITEMS_FILE = "items.json"
PREDICTIONS_FILE = "predictions.json"  # of the largest run of a ladder, before it is made
SLURM = "slurm"  # its folder of jobs that were submitted, with
SUBMISSION_FILE = "submission.json"

# A study of conversations: `paribus turns --out`.
TURNS_PAGE_FILE = "turns.md"
TURNS_CSV_FILE = "turns.csv"
TURNS_JSON_FILE = "turns.json"

# What probes found inside of runs: `paribus probe --out`.
PROBES_CSV_FILE = "probes.csv"
PROBES_PAGE_FILE = "probes.html"
ATTENTION_MAPS_FILE = "attention-maps.jsonl"
PROBES = "probes"  # the folder of a run in which it keeps rows of probes

# Beside the runs: what was answered in a chat, `paribus chat-demo`.
CHAT_ANSWERS_FILE = "chat-answers.json"

# A pack: `paribus pack`, a study in one file.
PACK_SUFFIX = ".paribus.zip"
PACK_LIST_FILE = "pack.json"  # in it: the size and sha256 of every other file

_STEP = "step-"
_ASKED = "asked-"
_ASKED_DIGITS = 16
_TASK = "task-"
_NODE_TOKEN = ".nodes-"


def checkpoint_name(step: int) -> str:
    """What the folder of a step's checkpoint is called."""
    return f"{_STEP}{step:09}"


def checkpoint_step(name: str) -> int:
    """The step whose checkpoint has this name."""
    return int(name.removeprefix(_STEP))


ASKED_PATTERN = f"{_ASKED}*.jsonl"  # every file of items in a study


def asked_items_name(fingerprint: str) -> str:
    """What the file is called that holds the items of a task as every arm of a study is asked."""
    return f"{_ASKED}{fingerprint[:_ASKED_DIGITS]}.jsonl"


def task_answers_name(digest: str) -> str:
    """What the file of answers to a task is called, in the folder of evaluations."""
    return f"{_TASK}{digest}.jsonl"


def is_task_answers_name(name: str) -> bool:
    """Is a file of evaluations one of answers to a task, not to a yardstick?"""
    return name.startswith(_TASK)


def node_token_name(secret: str) -> str:
    """What the file is called by which a node knows that it sees the same folder of runs."""
    return f"{_NODE_TOKEN}{secret}.json"


def node_lock_name(secret: str) -> str:
    """What the file is called whose lock the driver holds, and which every node must see locked."""
    return f"{_NODE_TOKEN}{secret}.lock"
