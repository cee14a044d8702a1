# Two commands do everything on a fresh machine: `make demo` and `make test`. They create .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed
STAMP := $(VENV)/.installed-for-development
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DEMO := demo-results

.PHONY: setup demo test coverage lint format slow bench docs refresh lock dist clean

setup: $(STAMP)

# What the demo needs; the tests' libraries come on top of it.
$(RUN): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lpm needs Python 3.11 or newer; try make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# without an NVIDIA card the CPU wheel: the default one brings 5 GB of CUDA
	command -v nvidia-smi >/dev/null || $(PIP) --no-deps --retries 1 --timeout 15 --index-url https://download.pytorch.org/whl/cpu torch || true
	$(PIP) torch
	$(PIP) -e '.[all]'
	@touch $(RUN)

$(STAMP): $(RUN)
	$(PIP) -e '.[dev]'
	@touch $(STAMP)

# Four agents in front of a TV, two seeds each: a ranking, what was seen, and a page. Rerun to see it again at once.
demo: $(RUN)
	$(BIN)/lpm reproduce mountain-car --conditions stochastic --methods lgn lpm rnd none --seeds 2 --out $(DEMO)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/line_budget.py

test: lint
	$(BIN)/python -m pytest
	$(BIN)/python -m pytest -q --doctest-modules lpm lpm_paper

coverage: setup
	$(BIN)/python -m pytest --cov --cov-report=term

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

docs: $(RUN)
	$(PIP) -e '.[docs]'
	$(BIN)/python -m lpm_paper.refresh --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Every number and figure of README and docs, from results/.
refresh: setup
	$(BIN)/python -m lpm_paper.refresh

# constraints.txt: every version of every package that the extras bring, for all systems and Pythons. Delete a line to have it
# chosen anew; `make lock LOCK=--upgrade` chooses all anew.
lock:
	$(PIP) -e '.[release]'
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev --extra docs --extra release --no-annotate \
	    --no-emit-index-url --custom-compile-command 'make lock' $(LOCK) pyproject.toml -o constraints.txt
	$(BIN)/python tools/licences.py

# The sdist and the wheel. The wheel is built twice and compared: the same commit gives the same bytes.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
dist: setup
	$(PIP) -e '.[release]'
	rm -rf build dist
	$(BIN)/python -m build --no-isolation
	rm -rf build
	$(BIN)/python -m build --no-isolation --wheel --outdir build/again
	cmp dist/*.whl build/again/*.whl && sha256sum dist/*

clean:
	rm -rf $(VENV) $(DEMO) build dist site *.egg-info .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis
