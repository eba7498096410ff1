"""Planning, running and resuming on two tiny sets."""

import dataclasses
import os
import signal
import subprocess
import sys
import time

import pytest

from genmetric.reproduction import _experiments as experiments
from genmetric.reproduction import _runner as runner
from genmetric.reproduction._experiments import EXPERIMENTS, Experiment, protocol
from genmetric.reproduction._methods import Estimators, InMetric, Votes
from genmetric.reproduction._problems import PROBLEMS
from genmetric.reproduction._runner import Forecast, plan, run, run_task
from genmetric.reproduction._store import Key, Store

SMALL = EXPERIMENTS["small"]


def tasks_of(methods=("euclidean", "uni", "uni-e"), **kwargs):
    return plan([SMALL], problems=["iris", "wine"], methods=methods, **kwargs)


def test_plan_groups_families_and_begins_with_all_first_splits():
    tasks = tasks_of(n_splits=2)
    assert [t.split for t in tasks] == [0] * 4 + [1] * 4
    assert {tuple(m.name for m in t.methods) for t in tasks} == {("euclidean",), ("uni", "uni-e")}


def test_plan_has_the_papers_splits():
    assert len(tasks_of(["euclidean"])) == 60


def test_plan_skips_finished_tasks():
    key = Key("iris", "uni", 0, protocol(PROBLEMS["iris"], tasks_of()[0].methods[0]))
    done = [key]
    for method in SMALL.methods:
        if method.name == "uni":
            done = [Key("iris", "uni", 0, protocol(PROBLEMS["iris"], method))]
    left = [t for t in tasks_of(n_splits=1, done=done) if t.problem.name == "iris"]
    assert [tuple(m.name for m in t.methods) for t in left] == [("euclidean",), ("uni-e",)]
    stale = [key._replace(protocol="stale") for key in done]
    assert len(tasks_of(n_splits=1, done=stale)) == len(tasks_of(n_splits=1))


def test_methods_of_some_problems_only():
    timing = EXPERIMENTS["timing"]
    names = {
        name: {m.name for t in plan([timing], problems=[name]) for m in t.methods}
        for name in ("iris", "letters-scaled")
    }
    assert names["iris"] - names["letters-scaled"] == {"time-nca"}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_run_fills_the_store_and_resumes(tmp_path, n_jobs):
    store = Store(tmp_path / "scores.jsonl")
    reports = []
    failed = run(
        tasks_of(n_splits=2),
        store,
        n_jobs=n_jobs,
        report=lambda done, left: reports.append((done.seconds, left)),
    )
    assert failed == []
    assert len(reports) == 8
    assert all(seconds > 0 and left >= 0 for seconds, left in reports)
    assert reports[-1][1] == 0
    records = store.read()
    assert len(records) == 2 * 2 * 3
    assert all(0 <= r.test <= 100 for r in records.values())
    assert tasks_of(n_splits=2, done=records) == []
    assert len(tasks_of(n_splits=3, done=records)) == 4


def test_scores_do_not_depend_on_the_number_of_processes(tmp_path):
    found = []
    for n_jobs in (1, 2):
        store = Store(tmp_path / f"{n_jobs}.jsonl")
        run(tasks_of(n_splits=1), store, n_jobs=n_jobs)
        found.append({key: (r.test, r.validation, r.chosen) for key, r in store.read().items()})
    assert found[0] == found[1]


def test_failure_is_reported_and_others_run(tmp_path):
    broken = Estimators(name="broken", title="", family="broken", estimator=InMetric, grid=({},))
    whole = InMetric(name="whole", title="", family="whole", decision=Votes((1,)))
    experiment = Experiment(name="e", title="e", problems=("iris",), methods=(broken, whole))
    store = Store(tmp_path / "scores.jsonl")
    failed = run(plan([experiment], n_splits=1), store)
    assert [done.task.methods[0].name for done in failed] == ["broken"]
    assert "TypeError" in failed[0].failure
    assert [key.method for key in store.read()] == ["whole"]


def test_forecast():
    tasks = tasks_of(["euclidean"], n_splits=3)
    forecast = Forecast(tasks, 2)
    assert forecast.seconds_left() is None
    done = run_task(tasks[0])
    done.seconds = 4.0
    forecast.add(done)
    rows = {t.kind: t.problem.n_samples for t in tasks}
    own = rows[tasks[0].kind]
    other = rows[tasks[1].kind]
    assert forecast.seconds_left() == pytest.approx((2 * 4 + 3 * 4 * other**2 / own**2) / 2)


RUN = """
import sys
from genmetric.reproduction._experiments import EXPERIMENTS
from genmetric.reproduction._runner import plan, run
from genmetric.reproduction._store import Store
store = Store(sys.argv[1])
tasks = plan([EXPERIMENTS["small"]], problems=["iris"], methods=["euclidean", "uni"],
             n_splits=25, done=store.read())
run(tasks, store, report=lambda done, left: print(len(done.records), flush=True))
print("end")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_resume_after_kill(tmp_path):
    path = tmp_path / "scores.jsonl"
    command = [sys.executable, "-c", RUN, str(path)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for _ in range(5):
            process.stdout.readline()
        time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    kept = Store(path).read()
    assert 5 <= len(kept) < 50
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, env=environment
    )
    assert done.stdout.split()[-1] == "end"
    # The second run did what was missing, and nothing twice.
    assert len(done.stdout.split()) - 1 == 50 - len(kept)
    assert len(path.read_text().splitlines()) <= 51
    assert len(Store(path).read()) == 50


def test_a_change_of_the_protocol_makes_scores_stale(tmp_path, monkeypatch):
    store = Store(tmp_path / "scores.jsonl")
    run(tasks_of(["euclidean"], n_splits=1), store)
    assert tasks_of(["euclidean"], n_splits=1, done=store.read()) == []
    monkeypatch.setattr(experiments, "PROTOCOL_VERSION", 99)
    assert len(tasks_of(["euclidean"], n_splits=1, done=store.read())) == 2


def test_new_problem_is_one_entry(tmp_path, monkeypatch):
    problem = dataclasses.replace(PROBLEMS["iris"], name="cancer", dataset="breast_cancer")
    monkeypatch.setitem(PROBLEMS, "cancer", problem)
    method = InMetric(name="euclidean", title="Euclidean", family="euclidean")
    experiment = Experiment(name="e", title="e", problems=("cancer",), methods=(method,))
    store = Store(tmp_path / "scores.jsonl")
    assert runner.run(plan([experiment], n_splits=1), store) == []
    (record,) = store.read().values()
    assert record.test < 15
