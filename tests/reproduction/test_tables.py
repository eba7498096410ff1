"""`run_tables`: scores are computed once and stored, and shown next to the paper."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from genmetric.reproduction import TABLES, run_tables
from genmetric.reproduction import experiments as experiments_module
from genmetric.reproduction.experiments import EXPERIMENTS, protocol
from genmetric.reproduction.methods import Estimators
from genmetric.reproduction.problems import PROBLEMS
from genmetric.reproduction.runner import Task, append_scores, read_scores, run_task
from genmetric.reproduction.tables import blocks, collect, text_block

SMALL = EXPERIMENTS["small"]


@pytest.fixture(autouse=True)
def no_data_directory(monkeypatch):
    monkeypatch.delenv("GENMETRIC_DATA", raising=False)


def score(problem, method, split, test):
    """A stored score of a method with the present protocol."""
    key = {"set": problem, "method": method.name, "split": split, "version": "1"}
    key["protocol"] = protocol(PROBLEMS[problem], method)
    return key | {"validation": test, "test": test, "seconds": 2.0, "chosen": {}}


def made_up(experiment, problems, n_splits=3, seed=0):
    """Scores of every method, larger for methods further down."""
    rng = np.random.default_rng(seed)
    return [
        score(name, method, split, float(i + rng.uniform(0, 0.5)) + 1)
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
    assert sorted(path.name for path in written) == ["paper.md", "report.html", "results.csv"]
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


def test_an_incomplete_last_line_is_computed_again(tmp_path):
    path = tmp_path / "scores.jsonl"
    append_scores(path, made_up(SMALL, ["iris"], 2)[:2])
    path.write_bytes(path.read_bytes()[:-40])
    assert len(read_scores(path)) == 1


def test_other_lines_are_skipped_and_the_last_score_of_a_key_counts(tmp_path):
    path = tmp_path / "scores.jsonl"
    assert read_scores(path) == {}
    uni = next(m for m in SMALL.methods if m.name == "uni")
    append_scores(path, [score("iris", uni, 0, 1.0)])
    with path.open("a") as file:
        file.write('{"set": "iris"}\n[1, 2]\n\nnothing\n\xe5\n')
    append_scores(path, [{**score("iris", uni, 0, 2.0), "version": "9.9"}])
    assert [(s["test"], s["version"]) for s in read_scores(path).values()] == [(2.0, "9.9")]


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


def test_main_table_has_the_paper_and_marks(tmp_path, capsys):
    files, _ = show("small", tmp_path, made_up(SMALL, ["iris", "wine", "german"]), capsys)
    rows = rows_of(files["paper.md"].partition(f"<summary>{SMALL.title}")[2])
    assert rows["method"] == ["Wine", "Iris", "German"]
    scores = [s["test"] for s in read_scores(tmp_path / "scores.jsonl").values()]
    first = np.array(scores[:3])
    ours = f"{first.mean():.2f} ± {first.std(ddof=1) / 3**0.5:.2f}"
    assert rows["Euclidean"][1].startswith(f"{ours} [5.11]")
    assert rows["Euclidean"][2].endswith("[27.27] (+)")
    assert "Splits: 3. Not computed: 3-Normal, Heart" in files["paper.md"]


def test_ranks_on_each_dataset(tmp_path, capsys):
    density = EXPERIMENTS["density"]
    files, text = show("density", tmp_path, made_up(density, ["iris", "wine"]), capsys)
    page = files["paper.md"].partition("<!-- density -->")[2]
    rows = rows_of(page.partition("<summary>Rank on each dataset")[2])
    # The made-up errors grow with the position of a method. The ranks of the paper are those of its
    # Table 5, where the headings of Iris and Wine are exchanged.
    assert rows["method"] == ["Wine", "Iris", "average rank"]
    assert rows["Euclidean"] == ["1 [8]", "1 [8]", "1.00 [7.75]"]
    assert rows["M^KDE"] == ["6 [2]", "6 [2]", "6.00 [1.87]"]
    assert rows["LMNN_E"] == ["7 [3]", "7 [6]", "7.00 [5.13]"]
    assert "Friedman's chi-square is 14.0" in " ".join(text.split())


def test_number_of_splits_is_reported(tmp_path, capsys):
    scores = made_up(SMALL, ["iris", "wine"])
    fewer = [s for s in scores if (s["method"], s["set"]) != ("nca", "iris") or s["split"] == 0]
    fewer = [s for s in fewer if (s["method"], s["set"]) != ("lda", "wine")]
    note = " ".join(show("small", tmp_path, fewer, capsys)[0]["paper.md"].split())
    assert "Splits: 3; LDA 0 on Wine; NCA 1 on Iris. Not computed" in note


def test_longer_runs_have_a_table_of_their_own(tmp_path, capsys):
    uni = next(m for m in SMALL.methods if m.name == "uni")
    scores = [score("wine", uni, split, 2.0 + (split >= 30)) for split in range(40)]
    page = show("small", tmp_path, scores, capsys)[0]["paper.md"]
    main, _, long = page.partition("<summary>More splits than in the paper")
    assert rows_of(main)["M^UNI"][0].startswith("2.00 ± 0.00")
    assert rows_of(long)["Wine"][:2] == ["M^UNI", "40"]
    assert rows_of(long)["Wine"][2].startswith("2.25 ± 0.07 [1.80]")


def test_agreement_is_counted_tested_and_explained(tmp_path, capsys):
    uni = next(m for m in SMALL.methods if m.name == "uni")
    means = {"3-normal": 90.0, "wine": 1.8, "iris": 4.73}
    scores = [score(p, uni, i, m + d) for p, m in means.items() for i, d in enumerate((-1, 0, 1))]
    scores += [score("heart", uni, split, 70.0) for split in range(2)]
    page = show("small", tmp_path, scores, capsys)[0]["paper.md"]
    # Two splits of Heart are too few; 3-Normal is generated.
    assert "2 of the paper's 2 values on real datasets are within two" in page
    z = 1.4 / np.hypot(3**-0.5, 0.48)
    p_value = 1 - stats.chi2.cdf(z**2, 2)
    joint = rows_of(page.partition("<summary>Joint test")[2])
    assert joint["M^UNI"] == ["2", f"{z**2:.1f}", f"{p_value:.2g}", f"Iris {z:+.1f}"]
    beyond = rows_of(page.partition("<summary>Cells beyond")[2])
    assert "Iris" not in beyond
    assert beyond["3-Normal"][4] == "worse"
    assert beyond["3-Normal"][5].startswith("generated")


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_table_is_written(name, tmp_path, capsys):
    experiment = EXPERIMENTS[name]
    n_splits = 1 if name == "timing" else 3
    scores = made_up(experiment, experiment.problems[:3], n_splits)
    files, text = show(name, tmp_path, scores, capsys)
    titles = [experiment.title, *(["Joint test"] if name != "timing" else [])]
    for title in titles:
        assert all(title in shown for shown in (files["paper.md"], files["report.html"], text))
    for method in experiment.methods_for(experiment.problems[0]):
        assert all(method.title in files[file] for file in ("paper.md", "report.html"))
    assert "Computed by genmetric 1." in files["paper.md"]


STORED = Path(__file__).parents[2] / "docs" / "results" / "scores.jsonl"


@pytest.mark.parametrize(
    ("table", "problem", "names"),
    [
        ("small", "wine", ["euclidean", "uni", "uni-e", "lmnn", "lmnn-e", "glm-int"]),
        ("density", "iris", ["gmm", "kde"]),
        ("small", "german", ["uni", "uni-e", "euclidean"]),
        ("nonlinear", "ionosphere", ["mkl-0", "mkl-1", "mkl-1-half", "mkl-1-lw"]),
        ("clustering", "iris", ["k-means", "k-means-uni"]),
        ("large", "letters-scaled", ["euclidean", "uni"]),
    ],
)
def test_stored_scores_are_those_of_this_code(table, problem, names):
    stored = {key[:3]: found for key, found in read_scores(STORED).items()}
    for method in EXPERIMENTS[table].methods:
        if method.name in names:
            _, (found,), failure = run_task(Task(PROBLEMS[problem], 3, (method,)))
            assert not failure
            expected = stored[problem, method.name, 3]
            assert found["protocol"] == expected["protocol"]
            assert found["test"] == pytest.approx(expected["test"])
            assert found["chosen"] == expected["chosen"]


def test_timing_has_the_ratio_of_the_paper(tmp_path, capsys):
    timing = EXPERIMENTS["timing"]
    scores = made_up(timing, ["iris", "letters-scaled"], 1)
    files, _ = show("timing", tmp_path, scores, capsys)
    rows = rows_of(files["paper.md"])
    seconds = {(s["set"], s["method"]): s["test"] for s in scores}
    ratio = seconds["iris", "time-lmnn"] / seconds["iris", "time-uni"]
    assert rows["Iris"][3:5] == [f"{ratio:.3g}", "87.5"]
    assert rows["Letters-scaled"][4] == "14"
    assert rows["Letters-scaled"][2] == rows["Letters-scaled"][5] == ""


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
    assert rows["nca"]["paper_mean"] == rows["nca"]["mark"] == ""


def test_page_keeps_its_text_and_does_not_change(tmp_path, capsys):
    page = tmp_path / "paper.md"
    page.write_text("# By hand\n\nWhy.\n\n<!-- small -->\nold\n<!-- end -->\n\nAfter.\n")
    files, _ = show("small", tmp_path, made_up(SMALL, ["iris", "wine"]), capsys)
    text = files["paper.md"]
    assert text.startswith("# By hand\n\nWhy.\n\n<!-- small -->\n\n")
    assert "</details>\n\nComputed by genmetric 1.\n\n<!-- end -->\n\nAfter.\n" in text
    assert "old" not in text
    assert show("small", tmp_path, [], capsys)[0] == files


def test_page_counts_the_agreement_of_all_tables(tmp_path, capsys):
    append_scores(tmp_path / "scores.jsonl", made_up(EXPERIMENTS["clustering"], ["iris", "wine"]))
    files, text = show("small", tmp_path, made_up(SMALL, ["iris", "wine"]), capsys)
    rows = rows_of(files["paper.md"].partition("<!-- summary -->")[2])
    assert rows[SMALL.title][0] == "12"
    assert rows["Rand index of clusters"][0] == "4"
    assert sum(map(int, rows[SMALL.title][1:4])) == 12
    assert "Rand index" not in text  # Only the tables asked for are printed.


def test_narrow_terminal_shows_all_cells(tmp_path):
    append_scores(tmp_path / "scores.jsonl", made_up(SMALL, SMALL.problems))
    results = collect(SMALL, read_scores(tmp_path / "scores.jsonl"))
    table = next(b for b in blocks(results) if getattr(b, "caption", "") == SMALL.title)
    narrow, wide = text_block(table, 80), text_block(table, 10_000)
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
