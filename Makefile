# Two commands do everything on a fresh machine: `make demo` and `make test`. They create .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed
STAMP := $(VENV)/.installed-for-development
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DEMO := demo-results

.PHONY: setup demo test lint format slow bench docs clean

setup: $(STAMP)

# What the demo needs; the tests' libraries come on top of it.
$(RUN): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lpm needs Python 3.11 or newer; try make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) -e '.[all]'
	@touch $(RUN)

$(STAMP): $(RUN)
	$(PIP) -e '.[dev]'
	@touch $(STAMP)

demo: $(RUN)
	$(BIN)/lpm reproduce mnist --methods lpm lpm-release ama forward_error --seeds 2 --out $(DEMO)/mnist
	$(BIN)/lpm reproduce mountain-car --conditions stochastic --methods lpm lpm-exp rnd none --seeds 2 --out $(DEMO)/mountain-car
	$(BIN)/lpm report $(DEMO) --out $(DEMO)/index.html

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
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/adapters.py

docs: setup
	$(PIP) -e '.[docs]'
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) $(DEMO) build dist site *.egg-info .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
