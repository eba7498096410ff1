"""Run what is not stored yet, in processes, and store each score as soon as it is computed.

A score is a line of JSON: its key (dataset, method, split and a hash of the protocol), the version
of the code, the scores on validation and test samples, the selected setting and seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from joblib import Parallel, delayed, parallel_config

from genmetric._parallel import one_blas_thread
from genmetric.reproduction.experiments import Experiment, protocol
from genmetric.reproduction.methods import Fits, Method
from genmetric.reproduction.problems import PROBLEMS, Problem, load_problem, split_parts


class Key(NamedTuple):
    """Key of a score; `protocol` is a hash of how it was computed."""

    problem: str
    method: str
    split: int
    protocol: str


#: A stored score: "set", "method", "split", "protocol", "version", "validation", "test", "chosen",
#: "seconds".
Score = Mapping[str, Any]


def read_scores(path: str | os.PathLike[str]) -> dict[Key, Score]:
    """Return the scores of a file by key, the last one of each; incomplete lines are skipped."""
    scores: dict[Key, Score] = {}
    text = Path(path).read_bytes().decode("utf-8", "replace") if Path(path).exists() else ""
    for line in text.splitlines():
        try:
            d = json.loads(line)
            key = Key(d["set"], d["method"], int(d["split"]), d["protocol"])
            scores[key] = d | {"test": float(d["test"]), "version": str(d["version"])}
        except (KeyError, TypeError, ValueError):
            continue
    return scores


def append_scores(path: str | os.PathLike[str], scores: Iterable[Score]) -> None:
    """Append scores to a file."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(score) + "\n" for score in scores)


@lru_cache(maxsize=1)
def code_version() -> str:
    """Return the version of genmetric and a hash of the source that scores depend on."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in ("cli", "plot", "report", "tables", "comparison"):
            digest.update(path.read_bytes())
    return f"{version('genmetric')}+{digest.hexdigest()[:8]}"


class Task(NamedTuple):
    """The methods of one family on one split; they share their fits."""

    problem: Problem
    split: int
    methods: tuple[Method, ...]

    def __str__(self) -> str:
        return f"{self.problem.name}, {self.methods[0].family}, split {self.split}"


def plan(
    experiments: Iterable[Experiment],
    done: Iterable[Key],
    *,
    problems: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    n_splits: int | None = None,
) -> list[Task]:
    """List the tasks that have not been done, the first split of every method first."""
    kept = set(done)
    families: dict[tuple[int, str, str], dict[str, Method]] = defaultdict(dict)
    for experiment in experiments:
        for name in experiment.problems:
            problem = PROBLEMS[name]
            for method in experiment.methods_for(name):
                if (problems and name not in problems) or (methods and method.name not in methods):
                    continue
                hashed = protocol(problem, method)
                for split in range(n_splits or experiment.n_splits or problem.n_splits):
                    if Key(name, method.name, split, hashed) not in kept:
                        families[split, name, method.family][method.name] = method
    ordered = sorted(families.items(), key=lambda item: item[0][0])
    return [Task(PROBLEMS[n], split, tuple(found.values())) for (split, n, _), found in ordered]


def run_task(
    task: Task, data_dir: str | None = None, cache_dir: str | None = None
) -> tuple[Task, list[Score], str]:
    """Run all methods of a task; an error is part of the result, so other tasks still run."""
    scores: list[Score] = []
    try:
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")  # The score shows whether a fit did not converge.
            X, y = load_problem(task.problem, data_dir, cache_dir)
            fits = Fits(split_parts(X, y, task.problem, task.split), seed=task.split)
            for method in task.methods:
                score = {"set": task.problem.name, "method": method.name, "split": task.split}
                score |= {"protocol": protocol(task.problem, method), "version": code_version()}
                start = perf_counter()
                score |= method.run(fits)
                scores.append(score | {"seconds": round(perf_counter() - start, 4)})
    except Exception as error:
        return task, scores, f"{type(error).__name__}: {error}"
    return task, scores, ""


def run(
    tasks: Sequence[Task],
    path: str | os.PathLike[str],
    *,
    n_jobs: int = 1,
    data_dir: str | None = None,
    cache_dir: str | None = None,
    progress: Callable[[str, float], Any] | None = None,
) -> int:
    """Run tasks in processes and store their scores; return the number of tasks that failed."""
    n_done = n_failed = 0
    # Timings are taken one by one, without other processes.
    for timed in (False, True):
        chosen = [task for task in tasks if (task.methods[0].family == "timing") is timed]
        jobs = 1 if timed else n_jobs
        options: dict[str, Any] = {"inner_max_num_threads": 1} if jobs > 1 else {}
        with parallel_config(backend="loky" if jobs > 1 else "sequential", **options):
            pool = Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs")
            for task, scores, failure in pool(
                delayed(run_task)(task, data_dir, cache_dir) for task in chosen
            ):
                append_scores(path, scores)
                n_done += 1
                n_failed += bool(failure)
                if progress is not None:
                    progress(f"{task}: {failure}" if failure else str(task), n_done / len(tasks))
    return n_failed
