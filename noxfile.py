#!/usr/bin/env -S uv run --script

# /// script
# dependencies = ["nox>=2025.2.9"]
# ///

"""Sessions for work on genmetric: ``nox`` runs all, ``nox -s tests`` one, ``nox -l`` lists them."""

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"

PROJECT = nox.project.load_toml("pyproject.toml")["project"]

# One BLAS thread for each worker, so that the workers do not fight over the cores.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests on the newest dependencies; arguments go to pytest."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "auto", *session.posargs, env=ONE_THREAD)


@nox.session(python="3.11")
def tests_oldest(session: nox.Session) -> None:
    """Run the tests on the oldest Python and the oldest dependencies that pyproject.toml allows."""
    # The frames of the tests too: scikit-learn 1.6 does not know those of polars 2.
    frames = [r for r in PROJECT["optional-dependencies"]["test"] if r[:6] in ("pandas", "polars")]
    floors = [r.replace(">=", "==") for r in PROJECT["dependencies"] + frames]
    session.install("-e", ".[test]", *floors)
    session.run("pytest", "-n", "auto", *session.posargs, env=ONE_THREAD)


@nox.session
def contract(session: nox.Session) -> None:
    """Run metric-learn's own tests on our metrics; arguments go to pytest."""
    # What the last metric-learn needs: it is from before scikit-learn 1.8 and pytest 8.
    session.install("-e", ".", "pip", "pandas", "scikit-learn<1.8", "pytest>=7,<8")
    session.run("python", "tests/contract/run_metric_learn.py", *session.posargs, env=ONE_THREAD)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("repo-review", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types."""
    session.install("-e", ".[dev]")
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the web pages; a warning is an error."""
    session.install("-e", ".[docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html")


if __name__ == "__main__":
    nox.main()
