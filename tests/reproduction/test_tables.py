"""`run_tables`: scores are computed once and stored, and shown next to the paper."""

import csv
import json

import numpy as np
import pytest

from genmetric.reproduction import TABLES, run_tables
from genmetric.reproduction import experiments as experiments_module
from genmetric.reproduction.experiments import EXPERIMENTS, protocol
from genmetric.reproduction.methods import Estimators
from genmetric.reproduction.problems import PROBLEMS
from genmetric.reproduction.runner import append_scores, read_scores
from genmetric.reproduction.tables import all_tables, collect, text_table

SMALL = EXPERIMENTS["small"]


@pytest.fixture(autouse=True)
def no_data_directory(monkeypatch):
    monkeypatch.delenv("GENMETRIC_DATA", raising=False)


def score(problem, method, split, test, **extra):
    """A stored score of a method with the present protocol."""
    key = {"set": problem, "method": method.name, "split": split}
    key["protocol"] = protocol(PROBLEMS[problem], method)
    return key | {"validation": test, "test": test, "seconds": 2.0, "chosen": {}, "extra": extra}


def made_up(experiment, problems, n_splits=3, seed=0):
    """Scores of every method, larger for methods further down."""
    rng = np.random.default_rng(seed)
    extra = {"adjusted": 0.25, "rank": {"0.01": 3, "0.0001": 4, "1e-06": 4}}
    return [
        score(name, method, split, float(i + rng.uniform(0, 0.5)) + 1, **extra)
        for name in problems
        for i, method in enumerate(experiment.methods_for(name))
        for split in range(n_splits)
    ]


def show(name, folder, scores, capsys):
    """Write stored scores, make the tables without computing, return the printed text."""
    append_scores(folder / "scores.jsonl", scores)
    written, n_failed = run_tables([name], output=folder, compute=False)
    assert n_failed == 0
    return {path.name: path.read_text("utf-8") for path in written}, capsys.readouterr().out


def rows_of(markdown):
    """The cells of each row of Markdown tables by its first cell; the first of equal ones."""
    rows = {}
    for line in markdown.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| "):
            rows.setdefault(cells[0], cells[1:])
    return rows


OPTIONS = {"datasets": ["iris", "wine"], "methods": ["euclidean", "lda", "uni"], "n_splits": 2}


def compute(folder, **others):
    return run_tables(["small"], output=folder, **{"n_jobs": 1, **OPTIONS, **others})


def test_a_run_is_stored_shown_and_not_repeated(tmp_path, capsys):
    told = []
    written, n_failed = compute(tmp_path, progress=lambda *news: told.append(news))
    assert n_failed == 0
    assert sorted(path.name for path in written) == ["report.html", "results.csv", "small.md"]
    assert all(path.is_file() for path in written)
    assert told[0] == ("wine, euclidean, split 0", pytest.approx(1 / 12))
    assert told[-1] == ("iris, lda, split 1", 1.0)
    scores = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert len(scores) == 12
    # A whole number of mistakes among 30 or 37 test samples.
    for found in scores:
        mistakes = found["test"] * {"iris": 0.30, "wine": 0.37}[found["set"]]
        assert mistakes == pytest.approx(round(mistakes))
    import genmetric

    assert {found["version"].partition("+")[0] for found in scores} == {genmetric.__version__}
    assert "M^UNI" in capsys.readouterr().out
    before = (tmp_path / "scores.jsonl").read_bytes()
    compute(tmp_path)
    assert (tmp_path / "scores.jsonl").read_bytes() == before


def test_scores_do_not_depend_on_the_number_of_processes(tmp_path):
    found = []
    for n_jobs in (1, 2):
        compute(tmp_path / str(n_jobs), n_jobs=n_jobs, n_splits=1)
        scores = read_scores(tmp_path / str(n_jobs) / "scores.jsonl")
        found.append({key: (s["test"], s["chosen"], s["version"]) for key, s in scores.items()})
    assert len(found[0]) == 6
    assert found[0] == found[1]


def test_a_stopped_run_continues(tmp_path):
    told = []

    def stop(*news):
        told.append(news)
        if len(told) == 4:
            raise KeyboardInterrupt

    path = tmp_path / "scores.jsonl"
    with pytest.raises(KeyboardInterrupt):
        compute(tmp_path, progress=stop)
    assert len(read_scores(path)) == 4
    compute(tmp_path)
    # The second run did what was missing, and nothing twice.
    assert len(read_scores(path)) == len(path.read_text().splitlines()) == 12


@pytest.mark.parametrize("cut", [1, 2, 40, 200])
def test_an_incomplete_last_line_is_computed_again(tmp_path, cut):
    path = tmp_path / "scores.jsonl"
    append_scores(path, made_up(SMALL, ["iris"], 2)[:2])
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    # Without its end of line only, the line is complete.
    kept = 2 if cut == 1 else 1
    assert len(read_scores(path)) == kept
    append_scores(path, made_up(SMALL, ["wine"], 1)[:1])
    assert len(read_scores(path)) == kept + 1


def test_other_lines_are_skipped_and_the_last_score_of_a_key_counts(tmp_path):
    path = tmp_path / "scores.jsonl"
    assert read_scores(path) == {}
    uni = next(m for m in SMALL.methods if m.name == "uni")
    append_scores(path, [score("iris", uni, 0, 1.0)])
    with path.open("a") as file:
        file.write('{"set": "iris"}\n[1, 2]\n\nnothing\n\xe5\n')
    append_scores(path, [{**score("iris", uni, 0, 2.0), "version": "9.9"}])
    assert [(s["test"], s["version"]) for s in read_scores(path).values()] == [(2.0, "9.9")]


def test_scores_of_before_versions_are_read(tmp_path, capsys):
    scores = made_up(SMALL, ["iris"])
    assert "version" not in scores[0]
    files, _ = show("small", tmp_path, scores, capsys)
    assert "M^UNI" in files["small.md"]


def test_a_failing_task_is_reported_and_others_run(tmp_path, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("no luck")

    monkeypatch.setattr(Estimators, "run", fail)
    told = []
    _, n_failed = compute(tmp_path, progress=lambda text, _: told.append(text))
    assert n_failed == 4
    assert "iris, lda, split 0: ZeroDivisionError: no luck" in told
    methods = {key.method for key in read_scores(tmp_path / "scores.jsonl")}
    assert methods == {"euclidean", "uni"}


def test_a_change_of_the_protocol_makes_scores_stale(tmp_path, monkeypatch, capsys):
    scores = made_up(SMALL, ["iris"])
    monkeypatch.setattr(experiments_module, "PROTOCOL_VERSION", 99)
    files, text = show("small", tmp_path, scores, capsys)
    assert list(files) == ["report.html"]
    assert text == ""


def test_datasets_that_cannot_be_loaded(tmp_path, monkeypatch):
    def offline(**_):
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    told = []
    options = {"methods": ["euclidean"], "n_splits": 1}
    progress = lambda text, _: told.append(text)  # noqa: E731
    compute(tmp_path, datasets=["heart", "iris"], progress=progress, **options)
    assert any("heart is left out" in text and "heart.csv.gz" in text for text in told)
    assert {key.problem for key in read_scores(tmp_path / "scores.jsonl")} == {"iris"}
    with pytest.raises(ValueError, match="none of the datasets could be loaded"):
        compute(tmp_path, datasets=["heart"], **options)


def test_quick_runs_two_splits_of_a_few_datasets(tmp_path):
    run_tables(["small"], output=tmp_path, methods=["lda"], quick=True, n_jobs=1)
    keys = read_scores(tmp_path / "scores.jsonl")
    assert {key.problem for key in keys} == set(SMALL.quick)
    assert {key.split for key in keys} == {0, 1}


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["smal"], {}, r"no table 'smal'; the names are clustering, .* Did you mean 'small'"),
        (["small"], {"datasets": ["iris", "vine"]}, r"no dataset 'vine'; .* mean 'wine'"),
        (["small"], {"methods": ["gml"]}, r"no method 'gml'; .* mean 'glm'"),
        (["large"], {"datasets": ["iris"]}, r"no dataset 'iris'; the names are letters-original"),
    ],
)
def test_unknown_names(names, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        run_tables(names, output=tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_main_table_has_the_paper_marks_and_ranks(tmp_path, capsys):
    files, text = show("small", tmp_path, made_up(SMALL, ["iris", "wine", "german"]), capsys)
    rows = rows_of(files["small.md"])
    assert rows["method"] == ["Wine", "Iris", "German", "average rank"]
    scores = [s["test"] for s in read_scores(tmp_path / "scores.jsonl").values()]
    first = np.array(scores[:3])
    ours = f"{first.mean():.2f} ± {first.std(ddof=1) / 3**0.5:.2f}"
    assert rows["Euclidean"][1].startswith(f"{ours} [5.11]")
    assert rows["Euclidean"][2].endswith("[27.27] (+)")
    # The made-up errors grow with the position of a method.
    assert rows["Euclidean"][3] == "1.00 [5.75]"
    assert rows["NCA"][3] == ""
    assert "Splits: 3." in files["small.md"]
    assert "Over 3 sets and 6 methods: Friedman chi-square 15.0" in text
    assert "(small_ranks.svg)" in files["small.md"]


def test_number_of_splits_is_reported(tmp_path, capsys):
    scores = made_up(SMALL, ["iris", "wine"])
    fewer = [s for s in scores if s["method"] != "nca" or s["split"] == 0]
    files, _ = show("small", tmp_path, fewer, capsys)
    assert "Splits: 3; NCA 1 on Wine, Iris." in files["small.md"]
    stored = read_scores(tmp_path / "scores.jsonl")
    uneven = {k: s for k, s in stored.items() if k.method != "nca" and (k[0] != "iris" or k[2])}
    assert "Splits: Wine 3, Iris 2." in all_tables(collect(SMALL, uneven))[0].note


def test_joint_test_leaves_generated_data_and_missing_errors_out(tmp_path, capsys):
    uni = next(m for m in SMALL.methods if m.name == "uni")
    means = {"3-normal": 90.0, "wine": 1.8, "iris": 5.33}
    scores = [score(p, uni, i, m + d) for p, m in means.items() for i, d in enumerate((-1, 1))]
    scores.append(score("heart", uni, 0, 70.0))
    files, _ = show("small", tmp_path, scores, capsys)
    table = files["small.md"].partition("## Joint test")[2]
    z = 2 / np.hypot(1, 0.48)
    assert rows_of(table)["M^UNI"][:2] == ["2", f"{z**2:.1f}"]
    assert rows_of(table)["M^UNI"][3] == f"Iris {z:+.1f}"
    assert "3-Normal is left out" in table


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_table_is_written(name, tmp_path, capsys):
    experiment = EXPERIMENTS[name]
    n_splits = 1 if name == "timing" else 2
    scores = made_up(experiment, experiment.problems[:3], n_splits)
    files, text = show(name, tmp_path, scores, capsys)
    titles = {
        "small": ["Joint test", "Bayes error"],
        "clustering": ["Adjusted Rand index", "Joint test"],
        "nonlinear": ["Choice of the number of regions", "Joint test"],
        "large": ["Rank of the learned metrics", "Joint test"],
    }
    for title in (experiment.title, *titles.get(name, [])):
        assert all(title in shown for shown in (files[f"{name}.md"], files["report.html"], text))
    for method in experiment.methods_for(experiment.problems[0]):
        assert all(method.title in files[file] for file in (f"{name}.md", "report.html"))
    assert "scikit-learn" in files[f"{name}.md"]
    assert all_tables(collect(experiment, {})) == []


def test_timing_has_the_ratio_of_the_paper(tmp_path, capsys):
    timing = EXPERIMENTS["timing"]
    scores = made_up(timing, ["iris", "letters-scaled"], 1)
    files, _ = show("timing", tmp_path, scores, capsys)
    rows = rows_of(files["timing.md"])
    seconds = {(s["set"], s["method"]): s["test"] for s in scores}
    ratio = seconds["iris", "time-lmnn"] / seconds["iris", "time-uni"]
    assert rows["Iris"][0] == "90"
    assert rows["Iris"][4:6] == [f"{ratio:.3g}", "87.5"]
    assert rows["Letters-scaled"][0] == "12000"
    assert rows["Letters-scaled"][5] == "14"
    assert rows["Letters-scaled"][3] == rows["Letters-scaled"][6] == ""


def test_timing_is_computed(tmp_path):
    options = {"datasets": ["iris"], "methods": ["time-uni"], "n_jobs": 2}
    assert run_tables(["timing"], output=tmp_path, **options)[1] == 0
    (found,) = read_scores(tmp_path / "scores.jsonl").values()
    assert 0 < found["test"] < 60


def test_csv(tmp_path, capsys):
    files, _ = show("small", tmp_path, made_up(SMALL, ["iris"]), capsys)
    rows = {row["method"]: row for row in csv.DictReader(files["results.csv"].splitlines())}
    assert list(rows) == [method.name for method in SMALL.methods]
    scores = read_scores(tmp_path / "scores.jsonl")
    uni = [s["test"] for key, s in scores.items() if key.method == "uni"]
    assert float(rows["uni"]["mean"]) == pytest.approx(np.mean(uni), rel=1e-5)
    assert (rows["uni"]["splits"], rows["uni"]["paper_mean"]) == ("3", "3.33")
    assert rows["uni"]["unit"] == "error, %"
    assert rows["nca"]["paper_mean"] == rows["nca"]["against_paper"] == ""


def test_page_keeps_its_introduction_and_does_not_change(tmp_path, capsys):
    page = tmp_path / "small.md"
    page.write_text("# By hand\n\nWhy.\n\n<!-- tables -->\nold")
    files, _ = show("small", tmp_path, made_up(SMALL, ["iris", "wine"]), capsys)
    assert files["small.md"].startswith("# By hand\n\nWhy.\n\n<!-- tables -->\n\n## Error on small")
    assert "old" not in files["small.md"]
    assert files["report.html"].count("<h2") >= 1
    assert "Average ranks, six methods" in files["report.html"]
    assert show("small", tmp_path, [], capsys)[0] == files


def test_narrow_terminal_shows_all_cells(tmp_path):
    append_scores(tmp_path / "scores.jsonl", made_up(SMALL, SMALL.problems))
    table = all_tables(collect(SMALL, read_scores(tmp_path / "scores.jsonl")))[0]
    narrow, wide = text_table(table, 80), text_table(table, 10_000)
    assert max(map(len, narrow.splitlines())) <= 80
    assert narrow.count("Euclidean") > wide.count("Euclidean") == 1
    for text in (narrow, wide):
        assert all(cell in text for row in table.rows for cell in row)


def test_isomap(tmp_path, capsys):
    written, _ = run_tables(["isomap"], output=tmp_path, quick=True)
    text = capsys.readouterr().out
    assert [path.name for path in written] == ["report.html"]
    page = written[0].read_text("utf-8")
    for shown in (text, page):
        assert "GenerativeMetric, from labels" in shown
    lines = {line.partition("  ")[0]: line.split() for line in text.splitlines()}
    assert float(lines["GenerativeMetric, from labels"][-2]) < 30
    assert "Isomap of digits" in page
    assert "isomap" in TABLES
