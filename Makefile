# Shorthands for the commands in README.md.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/pip install --quiet -c .ci/constraints.txt

.PHONY: chat test slow lint screenshots gpu-check

chat: $(VENV)
	$(PIP) -e .
	$(VENV)/bin/eagle-chat

test: $(VENV)
	$(PIP) -e '.[dev]'
	$(VENV)/bin/pytest

slow: $(VENV)
	$(PIP) -e '.[dev]'
	$(VENV)/bin/pytest -m slow

lint: $(VENV)
	$(PIP) -e '.[dev]'
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

gpu-check: $(VENV)
	$(PIP) -e '.[dev]'
	$(VENV)/bin/python -m tests.gpu_check

screenshots: $(VENV)
	$(PIP) -e '.[dev]'
	$(VENV)/bin/python screenshots/make.py

$(VENV):
	$(PYTHON) -m venv $(VENV)
