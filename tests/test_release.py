"""Release files: one version, one set of floors, links that work on the package index."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / ".github").is_dir(), reason="needs the repository, not the sdist"
)


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def check_tag():
    spec = importlib.util.spec_from_file_location("check_tag", ROOT / ".github" / "check_tag.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.check


def read(path):
    return (ROOT / path).read_text("utf-8")


def test_tag_version_and_recipe_agree(project, check_tag):
    assert check_tag("v9.9.9") == (
        f"The tag is v9.9.9, but the version in pyproject.toml is {project['version']}."
    )
    problem = check_tag(f"v{project['version']}")
    # Until its release a version has no section in the change log.
    assert problem is None or problem.startswith("CHANGELOG.md has no section")


def test_the_version_is_written_once(project):
    assert not re.search(r"^version:", read("CITATION.cff"), re.MULTILINE)
    assert project["version"] not in read("src/genmetric/__init__.py")
    assert project["version"] not in read("docs/conf.py")


def test_recipe_has_the_requirements_of_the_package(project):
    recipe = read("recipe/recipe.yaml").replace("matplotlib-base", "matplotlib")
    extras = project["optional-dependencies"]
    for requirement in (*project["dependencies"], *extras["cli"], *extras["report"]):
        name, _, floor = requirement.partition(">=")
        assert f"- {name} >={floor}" in recipe, requirement
    assert f'python_min: "{project["requires-python"].removeprefix(">=")}"' in recipe
    assert f"license: {project['license']}" in recipe


def test_classifiers_and_workflow_name_the_same_python_versions(project):
    prefix = "Programming Language :: Python :: 3."
    minors = [c.removeprefix(prefix) for c in project["classifiers"] if c.startswith(prefix)]
    assert minors[0] == project["requires-python"].removeprefix(">=3.")
    versions = ", ".join(f'"3.{minor}"' for minor in minors)
    assert f"python-version: [{versions}]" in read(".github/workflows/ci.yml")


def test_requirements_have_floors_and_no_caps(project):
    lists = (project["dependencies"], *project["optional-dependencies"].values())
    for requirement in (r for each in lists for r in each if not r.startswith("genmetric")):
        assert re.fullmatch(r"[A-Za-z0-9_-]+(\[\w+\])?>=[\d.]+", requirement), requirement


def test_links_of_the_readme_are_absolute():
    # The package index shows the README without the repository around it.
    text = re.sub(r"```.*?```", "", read("README.md"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)", text) + re.findall(r"(?:src|href)=\"([^\"]+)\"", text)
    assert links
    relative = [link for link in links if not link.startswith(("https://", "#"))]
    assert not relative
    own = "https://github.com/genmetric/genmetric/blob/main/"
    raw = "https://raw.githubusercontent.com/genmetric/genmetric/main/"
    for link in links:
        for prefix in (own, raw):
            if link.startswith(prefix):
                assert (ROOT / link.removeprefix(prefix).partition("#")[0]).exists(), link


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=str)
def test_workflows_run_sessions_that_exist(path):
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load(path.read_text("utf-8"))
    known = set(re.findall(r"^def (\w+)\(session", read("noxfile.py"), re.MULTILINE))
    for job in workflow["jobs"].values():
        used = job.get("strategy", {}).get("matrix", {}).get("session", [])
        for step in job["steps"]:
            command = str(step.get("run", "")).partition(" -- ")[0]
            if command.startswith("nox -s ") and "$" not in command:
                used = [*used, *command.removeprefix("nox -s ").split()]
        assert set(used) <= known
        assert "permissions" in job
        assert "timeout-minutes" in job


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=str)
def test_workflows_run_scripts_that_exist(path):
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"].values()
    commands = [str(step.get("run", "")) for job in jobs for step in job["steps"]]
    assert any(commands) or path.stem == "security"  # which has actions only
    for script in re.findall(r"[\w./-]+\.(?:py|sh|toml|txt)\b", "\n".join(commands)):
        assert (ROOT / script).exists(), script


def test_actions_are_pinned_by_the_hash_of_a_commit():
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        used = re.findall(r"uses: (\S+)(.*)", path.read_text("utf-8"))
        assert used
        for action, comment in used:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), (path.name, action)
            assert re.fullmatch(r" # v\d+(\.\d+)*", comment), (path.name, action)


def test_tools_of_the_workflows_have_exact_versions():
    lines = [line for line in read(".github/tools.txt").splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z-]+==[\d.]+", line) for line in lines)
    assert {"build", "hatchling", "nox", "twine"} <= {line.partition("==")[0] for line in lines}
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for command in re.findall(r"pip install .*", path.read_text("utf-8")):
            assert "--constraint .github/tools.txt" in command


def test_published_files_leave_the_scores_out():
    build = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert {"/docs/results/*.jsonl", "/docs/_static/mathjax"} <= set(build["exclude"])
    assert all((ROOT / name.strip("/")).exists() for name in build["include"])


def test_the_container_runs_without_rights():
    # There is no container runtime in the tests: the instructions are checked as text.
    lines = [line for line in read("Dockerfile").splitlines() if not line.startswith("#")]
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert all(re.search(r"@sha256:[0-9a-f]{64}$|:\d[\w.-]+$", base) for base in bases)
    assert len(set(bases)) == 1
    final = lines[max(i for i, line in enumerate(lines) if line.startswith("FROM ")) :]
    users = [line.split()[1] for line in final if line.startswith("USER ")]
    assert users
    assert int(users[-1]) > 0
    assert final.index(f"USER {users[-1]}") < final.index('ENTRYPOINT ["genmetric"]')
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            assert all((ROOT / name).exists() for name in line.split()[1:-1])
        assert not line.startswith("ADD ")
