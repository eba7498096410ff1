#!/usr/bin/env -S uv run --script

# /// script
# dependencies = ["nox>=2025.2.9"]
# ///

"""Sessions for work on genmetric: ``nox`` runs all, ``nox -s tests`` one, ``nox -l`` lists them."""

from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"

PROJECT = nox.project.load_toml("pyproject.toml")["project"]

# What users may install beside the core.
EXTRAS = ("ann", "dask", "onnx", "skops", "cli", "report")

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
    extras = PROJECT["optional-dependencies"]
    # The frames of the tests too: scikit-learn 1.6 does not know those of polars 2.
    frames = [r for r in extras["test"] if r[:6] in ("pandas", "polars")]
    optional = [r for name in EXTRAS for r in extras[name]]
    floors = [r.replace(">=", "==") for r in PROJECT["dependencies"] + optional + frames]
    session.install("-e", ".[test]", *floors)
    # Old packages on new ones below them may warn: matplotlib 3.9 does of pyparsing 3.3.
    session.run(
        *("pytest", "-n", "auto", "-W", "ignore::DeprecationWarning"),
        *session.posargs,
        env=ONE_THREAD,
    )


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


@nox.session
def build(session: nox.Session) -> None:
    """Build wheel and sdist twice into dist, compare their bytes, and try both where nothing is."""
    session.install("build")
    again = Path(session.create_tmp()).resolve()
    for folder in ("dist", again / "dist"):
        session.run(
            "python",
            "-m",
            "build",
            "--outdir",
            str(folder),
            env={"SOURCE_DATE_EPOCH": "1767225600"},
        )
    name = f"genmetric-{PROJECT['version']}"
    for built in (f"{name}.tar.gz", f"{name}-py3-none-any.whl"):
        if Path("dist", built).read_bytes() != (again / "dist" / built).read_bytes():
            session.error(f"{built} differs between two builds of the same files.")
        empty = again / built.split(".")[-1]
        session.run("python", "-m", "venv", "--clear", str(empty))
        python = next(str(path) for path in empty.glob("*/python*") if path.stem == "python")
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        session.run(*pip, f"dist/{built}", external=True)
        # Isolated: neither this folder nor PYTHONPATH stand in for what is missing.
        session.run(python, "-I", "-W", "error", "tests/smoke.py", external=True)


@nox.session
def audit(session: nox.Session) -> None:
    """Look the dependencies of the core and of all extras up among known vulnerabilities."""
    session.install("pip", "pip-audit", ".[all]")
    pinned = Path(session.create_tmp()).resolve() / "pinned.txt"
    with pinned.open("w") as stream:
        freeze = ("python", "-m", "pip", "freeze", "--exclude", "genmetric")
        session.run(*freeze, stdout=stream, stderr=None)
    # Strict: what no one knows counts as failed and not as clean.
    audit = ("pip-audit", "--strict", "--disable-pip", "--no-deps", "--progress-spinner", "off")
    session.run(*audit, "--requirement", str(pinned), *session.posargs)


if __name__ == "__main__":
    nox.main()
