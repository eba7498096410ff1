# Needs Python 3.11 or newer with pip and venv; everything else is installed into .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet
# More arguments for pytest: make test PYTEST_ARGS="-m slow tests/metric"
PYTEST_ARGS ?=

.PHONY: help demo test lint types docs bench review build audit clean
.DEFAULT_GOAL := help

help:  ## This list
	@sed -n 's/^\([a-z]*\): .*## */\1\t/p' $(MAKEFILE_LIST) | expand -t 10

demo: $(VENV)/.demo  ## Metrics compared on embedded data sets; writes genmetric-demo.html
	$(BIN)/genmetric demo

# One BLAS thread for each worker, so that the workers do not fight over the cores.
test: $(VENV)/.test  ## Tests and the examples in docstrings
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

lint: $(VENV)/.dev  ## Style of the code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## Types of the package
	$(BIN)/mypy

docs: $(VENV)/.docs  ## Web pages, in docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.bench  ## Time, memory and accuracy of the solvers; writes docs/benchmarks.md
	$(BIN)/python benchmarks/run.py

review: $(VENV)/.dev  ## Check the repository against the Scientific Python guide
	$(BIN)/repo-review .

build: $(VENV)/.dev  ## Wheel and sdist in dist, built twice and tried in empty environments
	$(BIN)/nox -s build

audit: $(VENV)/.dev  ## Known vulnerabilities of the dependencies
	$(BIN)/nox -s audit

clean:  ## Remove the environment and everything that was built
	rm -rf $(VENV) build dist genmetric-demo.html docs/_build docs/generated docs/auto_examples .coverage htmlcov \
		.mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each set of packages: installed once, and again when pyproject.toml changes.
$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "genmetric needs Python 3.11 or newer; name one: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable ".[cli,report]"
	@touch $@

$(VENV)/.test $(VENV)/.dev $(VENV)/.docs $(VENV)/.bench: $(VENV)/.%: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable ".[$*]"
	@touch $@
