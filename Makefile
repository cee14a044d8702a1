# Two commands do everything on a fresh machine: `make demo` and `make test`. They create .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := demo-results

.PHONY: setup demo test lint format slow bench docs clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lpm needs Python 3.11 or newer; try make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: setup
	$(BIN)/lpm reproduce mnist --methods lpm lpm-release ama forward_error --seeds 2 --out $(DEMO)/mnist

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest --cov --cov-report=term
	$(BIN)/python -m pytest -q --doctest-modules lpm --ignore=lpm/envs/maze_miniworld.py

slow: setup
	$(BIN)/python -m pytest -m slow

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python benchmarks/bonuses.py
	$(BIN)/python benchmarks/envs.py

docs: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) $(DEMO) build dist site *.egg-info .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
