# Every target sets itself up from a bare checkout: Python, make and a package index are all it needs.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := src tests benchmarks
DEFAULT_TESTS := not slow and not gpu and not browser and not cluster and not slurm

.PHONY: help demo chat test test-all test-browser test-cluster check format lock reference clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# A folder .venv of another Python is made anew: installing over it would keep the old interpreter.
VERSION := import sys; print(*sys.version_info[:2], sep=".")
.venv/python: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "PYTHON is $(PYTHON), which is \
	$$($(PYTHON) --version 2>&1); paribus needs Python 3.11 or newer: make PYTHON=python3.12 …" >&2; exit 1; }
	@if [ -d .venv ] && [ "$$($(BIN)/python -c '$(VERSION)' 2>&1)" != "$$($(PYTHON) -c '$(VERSION)')" ]; then \
	  rm -rf .venv; fi
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	@touch $@

INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt

# What the demo needs. With LOCKED=1 every file but torch's is checked against the hashes of a lock.
.venv/demo: .venv/python requirements.lock
ifdef LOCKED
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(INSTALL) torch
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
else
	$(INSTALL) --editable '.[report]'
endif
	@touch $@

.venv/ready: .venv/python
	$(INSTALL) --group dev --editable '.[report,serve]'
	@touch $@

demo: .venv/demo  ## a whole comparison in a few minutes, and its page; LOCKED=1: from files with known hashes
	$(BIN)/paribus demo

chat: .venv/ready  ## train two small models that chat, in under ten minutes, and open their page
	$(BIN)/paribus chat-demo

# In memory where there is room: the tests write many small files, each flushed to its disk. With
# bytecode, whatever the shell says: otherwise each process that a test starts compiles all sources.
MEMORY := /dev/shm
MIN_MEMORY_KIB := 4194304
test: .venv/ready  ## the default suite, a process a core
	if [ "$$(df --output=avail -k $(MEMORY) 2>/dev/null | tail -n 1)" -ge $(MIN_MEMORY_KIB) ] 2>/dev/null; then \
	  export PYTEST_DEBUG_TEMPROOT=$(MEMORY); fi; \
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 \
	$(BIN)/python -m pytest -m "$(DEFAULT_TESTS)" --numprocesses auto --dist worksteal

test-all: .venv/ready  ## everything this machine can run, slow and gpu included
	$(BIN)/python -m pytest -m "not browser and not cluster and not slurm"

# Lists of packages may be missing or old; where they cannot be had, the installation says so.
UPDATE_PACKAGES := apt-get update --quiet=2

.venv/browser: .venv/ready
	$(INSTALL) --group browser
	command -v chromium || { $(UPDATE_PACKAGES); apt-get install --yes --quiet chromium; }
	@touch $@

test-browser: .venv/browser  ## the page in a real browser; needs a chromium on the path
	$(BIN)/python -m pytest -m browser

SLURM_PACKAGES := slurmctld slurmd slurm-client munge

.venv/cluster: .venv/ready
	$(INSTALL) --editable '.[cluster]'
	if [ "$$(id -u)" = 0 ] && command -v apt-get && ! command -v slurmctld; then \
	  $(UPDATE_PACKAGES); apt-get install --yes --quiet --no-install-recommends $(SLURM_PACKAGES); fi
	@touch $@

test-cluster: .venv/cluster  ## studies on a real Ray cluster and a real SLURM, on this machine; as root all of it
	$(BIN)/python -m pytest -m "cluster or slurm"

check: .venv/ready  ## formatting, lint, types, and no large binaries
	$(BIN)/python .ci/tracked_files.py
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/pyright

format: .venv/ready  ## put the code into shape
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

lock: .venv/ready  ## pin anew what make installs: constraints.txt, and requirements.lock with hashes
	$(BIN)/python .ci/lock.py

reference: .venv/ready  ## write docs/reference.md anew, from the specs
	$(BIN)/paribus fields --markdown > docs/reference.md

clean:  ## remove what make made
	rm -rf .venv build dist
