# Shortcuts to the sessions of noxfile.py, which define all tasks. Needs Python 3.11 or newer with pip
# and venv; everything else is installed into .nox.
PYTHON ?= python3
RUNNER := .nox/runner
NOX    := $(RUNNER)/bin/nox
# More arguments, for example: make test ARGS="-m slow tests/learners"
ARGS   ?=

.PHONY: help demo test lint types docs bench clean
.DEFAULT_GOAL := help

help: $(NOX)  ## List the commands and the sessions
	@sed -n 's/^\([a-z]*\): .*## */\1\t/p' $(MAKEFILE_LIST) | expand -t 10
	@$(NOX) --list

demo: $(NOX)  ## Compare metrics on the bundled datasets; writes genmetric-demo.html
	$(NOX) -s demo -- $(ARGS)

test: $(NOX)  ## Run the tests and the examples in docstrings
	$(NOX) -s tests -- $(ARGS)

lint types docs bench: $(NOX)  ## Run the session of this name
	$(NOX) -s $@ -- $(ARGS)

clean:  ## Remove the environments and everything that was built
	rm -rf .nox build dist genmetric-demo.html docs/_build docs/generated docs/auto_examples .coverage htmlcov \
		.mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(NOX):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "genmetric needs Python 3.11 or newer; name one: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(RUNNER)
	$(RUNNER)/bin/python -m pip --disable-pip-version-check install --quiet "nox>=2025.2.9"
