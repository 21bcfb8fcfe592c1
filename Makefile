# Every target sets itself up from a bare checkout: Python, make and a package index are all it needs.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := src tests benchmarks
DEFAULT_TESTS := not slow and not gpu and not browser and not cluster and not slurm

.PHONY: help demo chat test test-all test-browser test-cluster check format reference clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable '.[report,serve]'
	@touch $@

demo: .venv/ready  ## a whole comparison in a few minutes, and its page
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
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group browser
	command -v chromium || { $(UPDATE_PACKAGES); apt-get install --yes --quiet chromium; }
	@touch $@

test-browser: .venv/browser  ## the page in a real browser; needs a chromium on the path
	$(BIN)/python -m pytest -m browser

SLURM_PACKAGES := slurmctld slurmd slurm-client munge

.venv/cluster: .venv/ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[cluster]'
	if [ "$$(id -u)" = 0 ] && command -v apt-get && ! command -v slurmctld; then \
	  $(UPDATE_PACKAGES); apt-get install --yes --quiet --no-install-recommends $(SLURM_PACKAGES); fi
	@touch $@

test-cluster: .venv/cluster  ## studies on a real Ray cluster and a real SLURM, on this machine; as root all of it
	$(BIN)/python -m pytest -m "cluster or slurm"

check: .venv/ready  ## formatting, lint and types
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/pyright

format: .venv/ready  ## put the code into shape
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

reference: .venv/ready  ## write docs/reference.md anew, from the specs
	$(BIN)/paribus fields --markdown > docs/reference.md

clean:  ## remove what make made
	rm -rf .venv build dist
