#!/usr/bin/env -S uv run --script

# /// script
# dependencies = ["nox>=2025.2.9"]
# ///

"""All tasks of the project. ``nox -l`` lists them, ``nox -s docs`` runs one.

``make test`` and ``make demo`` install nox and run the sessions of these names.
"""

import os
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"

PROJECT = nox.project.load_toml("pyproject.toml")["project"]

# Extras for users.
EXTRAS = ("ann", "dask", "onnx", "files", "cli", "excel", "report")

# Exact versions of the tools that build, check and publish.
TOOLS = ("--constraint", ".github/tools.txt")

# One BLAS thread per worker, so that the workers do not compete for the cores.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def requirements(*names: str) -> list[str]:
    """Return the requirements of the extra "dev" with these names."""
    return [r for r in PROJECT["optional-dependencies"]["dev"] if r.startswith(names)]


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests on the newest dependencies; arguments are passed to pytest."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "auto", *session.posargs, env=ONE_THREAD)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and the layout of the repository."""
    session.install(*requirements("ruff", "sp-repo-review"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("repo-review", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types."""
    session.install(
        "-e", ".[cli,report,dask]", *requirements("mypy", "scipy-stubs", "pandas-stubs")
    )
    session.run("mypy")


@nox.session(default=False)
def demo(session: nox.Session) -> None:
    """Compare metrics on the bundled datasets; writes genmetric-demo.html."""
    session.install("-e", ".[cli,report]")
    session.run("genmetric", "demo", *session.posargs)


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """Run the tests with coverage; fail below the threshold in pyproject.toml."""
    session.install("-e", ".[test]")
    cov = ("--cov", "--cov-report=xml", "--cov-report=term")
    session.run("pytest", "-n", "auto", *cov, *session.posargs, env=ONE_THREAD)


@nox.session(default=False)
def slow(session: nox.Session) -> None:
    """Run the tests that take minutes."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "auto", "-m", "slow", *session.posargs, env=ONE_THREAD)


@nox.session(python="3.11", default=False)
def tests_oldest(session: nox.Session) -> None:
    """Run the tests on the oldest Python and the oldest dependencies that pyproject.toml allows."""
    extras = PROJECT["optional-dependencies"]
    # scikit-learn 1.6 does not support the data frames of polars 2.
    frames = [r for r in extras["test"] if r[:6] in ("pandas", "polars")]
    optional = [r for name in EXTRAS for r in extras[name]]
    floors = [r.replace(">=", "==") for r in PROJECT["dependencies"] + optional + frames]
    session.install("-e", ".[test]", *floors)
    # Old packages on newer dependencies can warn: matplotlib 3.9 warns about pyparsing 3.3.
    session.run(
        *("pytest", "-n", "auto", "-W", "ignore::DeprecationWarning"),
        *session.posargs,
        env=ONE_THREAD,
    )


@nox.session(default=False)
def tests_nightly(session: nox.Session) -> None:
    """Run the tests on development versions of NumPy, SciPy and scikit-learn."""
    index = os.environ.get("NIGHTLY_INDEX")
    if not index:
        session.error("Set NIGHTLY_INDEX to the address of the scientific-python nightly wheels.")
    session.install("-e", ".[test]")
    names = ("numpy", "scipy", "scikit-learn")
    session.install("--upgrade", "--pre", "--extra-index-url", index, *names)
    # Deprecations of development versions are reported as warnings, not as failures.
    relaxed = ("-W", "default::DeprecationWarning", "-W", "default::FutureWarning")
    session.run("pytest", "-n", "auto", *relaxed, *session.posargs, env=ONE_THREAD)


@nox.session(default=False)
def contract(session: nox.Session) -> None:
    """Run metric-learn's own tests on our metrics; arguments are passed to pytest."""
    # The last metric-learn is older than scikit-learn 1.8 and pytest 8.
    session.install("-e", ".", "pip", "pandas", "scikit-learn<1.8", "pytest>=7,<8")
    session.run("python", "tests/contract/run_metric_learn.py", *session.posargs, env=ONE_THREAD)


@nox.session(default=False)
def retrieval(session: nox.Session) -> None:
    """Compare the retrieval scores with those of pytorch-metric-learning.

    The argument is the requirement of torch. A plain one selects a build for graphics processors,
    of gigabytes, on most systems; ``nox -s retrieval -- torch==2.13.0`` selects a version. A torch
    that the environment of the session has already is kept.
    """
    # Its scores need faiss, which it does not require.
    session.install("-e", ".[ann]", *(session.posargs or ["torch"]), "pytorch-metric-learning")
    session.run("python", "tests/contract/compare_retrieval.py", env=ONE_THREAD)


@nox.session(default=False)
def engines(session: nox.Session) -> None:
    """Run the recipes of the page "Any engine" on Ray and Spark; needs a Java runtime."""
    tools = [r for r in PROJECT["optional-dependencies"]["test"] if r.startswith(("pyt", "hyp"))]
    session.install("-e", ".[cli]", *tools, "ray[data]", "pyspark")
    session.run("pytest", "tests/engines", *session.posargs, env=ONE_THREAD)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the web pages; a warning is an error."""
    session.install("-e", ".[docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure time, memory and accuracy of the solvers; writes docs/results/speed.csv."""
    session.install("-e", ".[bench]")
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Build wheel and sdist twice into dist, compare their bytes, and try both when installed."""
    session.install(*TOOLS, "build", "twine")
    again = Path(session.create_tmp()).resolve()
    for folder in ("dist", again / "dist"):
        session.run(
            *("python", "-m", "build", "--outdir", str(folder)),
            env={
                "SOURCE_DATE_EPOCH": "1767225600",
                "PIP_CONSTRAINT": str(Path(".github/tools.txt").resolve()),
            },
        )
    name = f"genmetric-{PROJECT['version']}"
    files = (f"{name}.tar.gz", f"{name}-py3-none-any.whl")
    session.run("twine", "check", "--strict", *(f"dist/{built}" for built in files))
    for built in files:
        if Path("dist", built).read_bytes() != (again / "dist" / built).read_bytes():
            session.error(f"{built} differs between two builds of the same files.")
        empty = again / built.split(".")[-1]
        session.run("python", "-m", "venv", "--clear", str(empty))
        python = next(str(path) for path in empty.glob("*/python*") if path.stem == "python")
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        session.run(*pip, f"dist/{built}", external=True)
        # Isolated mode: neither this directory nor PYTHONPATH can replace a missing file.
        session.run(python, "-I", "-W", "error", "tests/smoke.py", external=True)


@nox.session(default=False)
def release_files(session: nox.Session) -> None:
    """Validate CITATION.cff, the workflows and the recipe of conda-forge."""
    session.install(*TOOLS, "cffconvert", "zizmor", "setuptools<81", "py-rattler-build")
    session.run("cffconvert", "--validate", "-i", "CITATION.cff")
    session.run("zizmor", "--offline", ".github")
    read = "open(sys.argv[1], encoding='utf-8').read()"
    render = f"import sys, rattler_build as r; print(r.Stage0Recipe.from_yaml({read}).render())"
    session.run("python", "-c", render, "recipe/recipe.yaml")


@nox.session(default=False)
def audit(session: nox.Session) -> None:
    """Check the dependencies of the core and of all extras for known vulnerabilities."""
    session.install(*TOOLS, "pip", "pip-audit", ".[all]")
    pinned = Path(session.create_tmp()).resolve() / "pinned.txt"
    with pinned.open("w") as stream:
        freeze = ("python", "-m", "pip", "freeze", "--exclude", "genmetric")
        session.run(*freeze, stdout=stream, stderr=None)
    # In strict mode a package that the database does not contain counts as failed.
    audit = ("pip-audit", "--strict", "--disable-pip", "--no-deps", "--progress-spinner", "off")
    session.run(*audit, "--requirement", str(pinned), *session.posargs)


@nox.session(default=False)
def bandit(session: nox.Session) -> None:
    """Search the code for patterns that are often insecure."""
    session.install(*TOOLS, "bandit")
    # Asserts are for the type checker, and `load_dataset` is not that of Hugging Face.
    session.run("bandit", "--recursive", "--quiet", "--skip", "B101,B615", "src")


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Load damaged model files and read damaged tables for two minutes; needs Linux.

    The argument is the number of seconds for each of the two.
    """
    session.install("-e", ".[all]")
    seconds = session.posargs or ["60"]
    for script in sorted(Path("tests/fuzz").glob("fuzz_*.py")):
        session.run("python", str(script), *seconds, env=ONE_THREAD)


if __name__ == "__main__":
    nox.main()
