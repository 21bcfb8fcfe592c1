# Every target sets itself up from a bare checkout: Python, make and a package index are all it needs.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := src tests benchmarks

.PHONY: help test test-all check format clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable .
	@touch $@

test: .venv/ready  ## the default suite, on all cores
	$(BIN)/python -m pytest -m "not slow and not gpu" --numprocesses auto --dist worksteal

test-all: .venv/ready  ## everything this machine can run, slow and gpu included
	$(BIN)/python -m pytest

check: .venv/ready  ## formatting, lint and types
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/pyright

format: .venv/ready  ## put the code into shape
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

clean:  ## remove what make made
	rm -rf .venv build dist
