"""Run what is not stored yet, in processes, and store each score as soon as it is computed."""

from __future__ import annotations

import json
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
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


class Record(NamedTuple):
    """One score: its key, test and validation score, seconds, and the selected setting."""

    key: Key
    test: float
    validation: float | None
    seconds: float
    chosen: Mapping[str, Any]
    extra: Mapping[str, Any]

    def line(self) -> str:
        """Return the record as a line of JSON."""
        problem, method, split, hashed = self.key
        entry = {"set": problem, "method": method, "split": split, "protocol": hashed}
        entry |= {"validation": self.validation, "test": self.test}
        entry |= {"seconds": round(self.seconds, 4), "chosen": self.chosen, "extra": self.extra}
        return json.dumps(entry)


class Store:
    """A file of records, one line each, that only grows; a line that is not complete is skipped."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> dict[Key, Record]:
        """Return all records by key; the last one if a key occurs several times."""
        records = {}
        text = self.path.read_bytes().decode("utf-8", "replace") if self.path.exists() else ""
        for line in text.splitlines():
            try:
                d = json.loads(line)
                key = Key(d["set"], d["method"], int(d["split"]), d["protocol"])
                rest = (d["validation"], d["seconds"], d["chosen"], d["extra"])
                records[key] = Record(key, float(d["test"]), *rest)
            except (KeyError, TypeError, ValueError):
                continue
        return records

    def append(self, records: Iterable[Record]) -> None:
        """Append records to the file and flush it to disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # after a power cut
                    file.write(b"\n")
            file.write("".join(record.line() + "\n" for record in records).encode())
            file.flush()
            os.fsync(file.fileno())


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
                for split in range(n_splits or experiment.n_splits or problem.n_splits):
                    if Key(name, method.name, split, protocol(problem, method)) not in kept:
                        families[split, name, method.family][method.name] = method
    ordered = sorted(families.items(), key=lambda item: item[0][0])
    return [Task(PROBLEMS[n], split, tuple(found.values())) for (split, n, _), found in ordered]


def run_task(
    task: Task, data_dir: str | None = None, cache_dir: str | None = None
) -> tuple[Task, list[Record], str]:
    """Run all methods of a task; an error is part of the result, so that other tasks still run."""
    records, failure = [], ""
    try:
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")  # The score shows whether a fit did not converge.
            X, y = load_problem(task.problem, data_dir, cache_dir)
            fits = Fits(split_parts(X, y, task.problem, task.split), seed=task.split)
            for method in task.methods:
                start = perf_counter()
                outcome = method.run(fits)
                hashed = protocol(task.problem, method)
                key = Key(task.problem.name, method.name, task.split, hashed)
                seconds = perf_counter() - start
                scores = (outcome.test, outcome.validation, seconds)
                records.append(Record(key, *scores, outcome.chosen, outcome.extra))
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    return task, records, failure


def run(
    tasks: Sequence[Task],
    store: Store,
    *,
    n_jobs: int = 1,
    data_dir: str | None = None,
    cache_dir: str | None = None,
    report: Callable[[Task, str], Any] | None = None,
) -> int:
    """Run tasks in processes and store their scores; return the number of tasks that failed."""
    n_failed = 0
    options: dict[str, Any] = {"inner_max_num_threads": 1} if n_jobs > 1 else {}
    with parallel_config(backend="loky" if n_jobs > 1 else "sequential", **options):
        pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs")
        results = pool(delayed(run_task)(task, data_dir, cache_dir) for task in tasks)
        for task, records, failure in results:
            store.append(records)
            n_failed += bool(failure)
            if report is not None:
                report(task, failure)
    return n_failed
