"""Run the tasks that are not in the store yet, in processes, and store each score at once."""

from __future__ import annotations

import os
import threading
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter, sleep
from typing import Any

from joblib import Parallel, delayed, parallel_config

from genmetric._chunks import one_blas_thread
from genmetric.reproduction._cache import Fits
from genmetric.reproduction._experiments import Experiment, protocol
from genmetric.reproduction._methods import Method
from genmetric.reproduction._problems import PROBLEMS, Problem, load_problem, split_parts
from genmetric.reproduction._store import Key, Record, Store

#: Seconds between two looks at the parent process.
INTERVAL = 1.0

_watching: set[int] = set()


def end_with_parent(parent: int) -> None:
    """Let this process end soon after its parent has ended, even if that was killed.

    A pool cannot stop its idle workers if its process is killed. Each worker therefore checks in a
    thread whether its parent still is the process that started it. This works on POSIX systems,
    where the children of a process that ends get another parent; elsewhere nothing happens.

    Parameters
    ----------
    parent : int
        Id of the process that started this one.
    """
    if os.name != "posix" or os.getppid() != parent or parent in _watching:
        return
    _watching.add(parent)

    def watch() -> None:
        while os.getppid() == parent:
            sleep(INTERVAL)
        # Not sys.exit: it would end only this thread.
        os._exit(1)

    threading.Thread(target=watch, name="genmetric-parent", daemon=True).start()


@dataclass(frozen=True)
class Task:
    """The methods of one family on one split; they share their fits."""

    problem: Problem
    split: int
    methods: tuple[Method, ...]

    @property
    def kind(self) -> tuple[str, str]:
        """Dataset and family; tasks of the same kind take about the same time."""
        return self.problem.name, self.methods[0].family


@dataclass
class Done:
    """Result of a task."""

    task: Task
    records: list[Record] = field(default_factory=list)
    seconds: float = 0.0
    failure: str = ""


def plan(
    experiments: Iterable[Experiment],
    *,
    problems: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    n_splits: int | None = None,
    done: Iterable[Key] = (),
) -> list[Task]:
    """List the tasks that have not been done.

    Parameters
    ----------
    experiments : iterable of Experiment
        Experiments to run.
    problems, methods : sequence of str, default=None
        Names to keep; ``None`` keeps all.
    n_splits : int, default=None
        Number of splits; that of the paper by default.
    done : iterable of Key
        Keys of the scores in the store.

    Returns
    -------
    list of Task
        The first split of every method comes first, so that a run that is stopped early has
        results for all of them.
    """
    kept = set(done)
    families: dict[tuple[int, str, str], dict[str, Method]] = defaultdict(dict)
    for experiment in experiments:
        for name in experiment.problems:
            if problems is not None and name not in problems:
                continue
            problem = PROBLEMS[name]
            for method in experiment.methods_for(name):
                if methods is not None and method.name not in methods:
                    continue
                for split in range(n_splits or experiment.splits_of(problem)):
                    if Key(name, method.name, split, protocol(problem, method)) not in kept:
                        families[split, name, method.family][method.name] = method
    ordered = sorted(families.items(), key=lambda item: item[0][0])
    return [
        Task(PROBLEMS[name], split, tuple(group.values())) for (split, name, _), group in ordered
    ]


def _run_in_worker(parent: int, task: Task, *directories: str | None) -> Done:
    """Run a task in a process that ends with `parent`."""
    end_with_parent(parent)
    return run_task(task, *directories)


def run_task(task: Task, data_dir: str | None = None, cache_dir: str | None = None) -> Done:
    """Run all methods of a task. An error is part of the result, so that other tasks still run."""
    start = perf_counter()
    done = Done(task)
    try:
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")  # The score shows whether a fit did not converge.
            X, y = load_problem(task.problem, data_dir, cache_dir)
            parts = split_parts(X, y, task.split, task.problem.sizes)
            fits = Fits(parts, seed=task.split)
            for method in task.methods:
                begun = perf_counter()
                outcome = method.run(fits, refit=task.problem.refit)
                key = Key(
                    task.problem.name, method.name, task.split, protocol(task.problem, method)
                )
                done.records.append(
                    Record(
                        key,
                        outcome.test,
                        outcome.validation,
                        perf_counter() - begun,
                        outcome.chosen,
                        outcome.extra,
                    )
                )
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        done.failure = f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})"
    done.seconds = perf_counter() - start
    return done


class Forecast:
    """Estimate of the time left, from the times of tasks of the same kind."""

    def __init__(self, tasks: Sequence[Task], n_jobs: int) -> None:
        self._left: dict[tuple[str, str], int] = defaultdict(int)
        self._rows: dict[tuple[str, str], int] = {}
        for task in tasks:
            self._left[task.kind] += 1
            self._rows[task.kind] = task.problem.n_samples
        self._spent: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._n_jobs = n_jobs

    def add(self, done: Done) -> None:
        """Add the time of a finished task."""
        self._left[done.task.kind] -= 1
        self._spent[done.task.kind].append(done.seconds)

    def seconds_left(self) -> float | None:
        """Return the estimate, or None before the first task has finished."""
        known = {kind: sum(t) / len(t) for kind, t in self._spent.items()}
        if not known:
            return None
        # Kinds without a time yet: by the times of their family, with the square of the samples.
        total = 0.0
        for kind, n in self._left.items():
            if n and kind in known:
                total += n * known[kind]
            elif n:
                alike = [k for k in known if k[1] == kind[1]] or list(known)
                rate = sum(known[k] / self._rows[k] ** 2 for k in alike) / len(alike)
                total += n * rate * self._rows[kind] ** 2
        return total / self._n_jobs


def run(
    tasks: Sequence[Task],
    store: Store,
    *,
    n_jobs: int = 1,
    data_dir: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    report: Callable[[Done, float | None], Any] | None = None,
) -> list[Done]:
    """Run tasks and append their scores to the store as they are computed.

    Parameters
    ----------
    tasks : sequence of Task
        Tasks in order.
    store : Store
        Store for the scores; only this process writes to it.
    n_jobs : int, default=1
        Number of processes, each with one BLAS thread. They end when this process ends.
    data_dir, cache_dir : path-like, default=None
        As in :func:`genmetric.reproduction._problems.load_problem`.
    report : callable, default=None
        Called after each task with its result and the estimated seconds left.

    Returns
    -------
    list of Done
        The tasks that failed.
    """
    failed: list[Done] = []
    if not tasks:
        return failed
    forecast = Forecast(tasks, n_jobs)
    directories = [None if d is None else str(d) for d in (data_dir, cache_dir)]
    options: dict[str, Any] = {"inner_max_num_threads": 1} if n_jobs > 1 else {}
    with parallel_config(backend="loky" if n_jobs > 1 else "sequential", **options):
        pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs")
        results = pool(delayed(_run_in_worker)(os.getpid(), task, *directories) for task in tasks)
        try:
            for done in results:
                store.append(done.records)
                forecast.add(done)
                if done.failure:
                    failed.append(done)
                if report is not None:
                    report(done, forecast.seconds_left())
        finally:
            results.close()
    return failed
