"""Tables from records: text, Markdown, CSV, the page and its figures."""

import csv
import io

import numpy as np
import pytest

from genmetric.reproduction._cache import spectrum_ranks
from genmetric.reproduction._experiments import EXPERIMENTS, protocol
from genmetric.reproduction._pages import (
    isomap_table,
    markdown,
    rankings,
    text_tables,
    write_files,
    write_page,
)
from genmetric.reproduction._paper import Figure
from genmetric.reproduction._problems import PROBLEMS
from genmetric.reproduction._ranks import critical_difference_diagram
from genmetric.reproduction._store import Key, Record
from genmetric.reproduction._tables import (
    TextTable,
    collect,
    csv_text,
    main_table,
    pm,
    timing_table,
)

SMALL = EXPERIMENTS["small"]


def records_of(experiment, problems, n_splits=3, seed=0):
    """Made-up scores for every method."""
    rng = np.random.default_rng(seed)
    found = {}
    for name in problems:
        for i, method in enumerate(experiment.methods_for(name)):
            for split in range(n_splits):
                key = Key(name, method.name, split, protocol(PROBLEMS[name], method))
                score = float(i + rng.uniform(0, 0.5)) + 1
                extra = {"refit": score / 2, "adjusted": 0.25, "rank": spectrum_ranks(np.eye(4))}
                found[key] = Record(key, score, score, 2.0, {}, extra)
    return found


def test_cells_hold_mean_error_and_paper():
    records = records_of(SMALL, ["iris", "wine"])
    results = collect(SMALL, records)
    cell = results.cells["iris", "uni"]
    scores = [r.test for k, r in records.items() if (k.problem, k.method) == ("iris", "uni")]
    assert cell.scores == tuple(scores)
    assert cell.mean == pytest.approx(np.mean(scores))
    assert cell.stderr == pytest.approx(np.std(scores, ddof=1) / np.sqrt(3))
    assert cell.paper == Figure(3.33, 0.48)
    assert cell.refits == pytest.approx([s / 2 for s in scores])
    assert results.problems == ["wine", "iris"]


def test_stale_records_are_left_out():
    records = records_of(SMALL, ["iris"])
    stale = {key._replace(protocol="x"): record for key, record in records.items()}
    assert collect(SMALL, stale).cells == {}


def test_main_table():
    results = collect(SMALL, records_of(SMALL, ["iris", "wine"]))
    table = main_table(results)
    assert table.columns == ["method", "Wine", "Iris", "average rank"]
    assert [row[0] for row in table.rows] == [m.title for m in SMALL.methods]
    assert "[1.80]" in table.rows[4][1]
    # The made-up errors rise with the place of a method.
    assert table.rows[0][3].startswith("1.00 [5.75]")
    assert table.rows[-1][3] == ""
    assert "Splits: 3." in table.note


def test_number_of_splits_is_reported():
    records = records_of(SMALL, ["iris", "wine"])
    fewer = {k: r for k, r in records.items() if k.method != "nca" or k.split == 0}
    assert "Splits: 3; NCA 1 on Wine, Iris." in main_table(collect(SMALL, fewer)).note
    uneven = {k: r for k, r in records.items() if k.problem != "iris" or k.split < 2}
    assert "Splits: Wine 3, Iris 2." in main_table(collect(SMALL, uneven)).note


def test_marks_are_shown():
    results = collect(SMALL, records_of(SMALL, ["german"]))
    assert all("(+)" in row[1] for row in main_table(results).rows if "[" in row[1])


def test_ranks_need_two_complete_sets():
    results = collect(SMALL, records_of(SMALL, ["iris"]))
    assert rankings(results) == {}
    both = collect(SMALL, records_of(SMALL, ["iris", "wine"]))
    assert list(rankings(both)) == ["six methods", "six methods, training and validation samples"]


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_experiment_renders(name):
    experiment = EXPERIMENTS[name]
    results = collect(experiment, records_of(experiment, experiment.problems[:3]))
    text = markdown(results)
    for table in text_tables(results):
        assert table.title in text
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert table.rows
    assert "scikit-learn" in text


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_nothing_renders_nothing(name):
    assert text_tables(collect(EXPERIMENTS[name], {})) == []


def test_timing_has_the_papers_ratio():
    timing = EXPERIMENTS["timing"]
    results = collect(timing, records_of(timing, ["iris", "letters-scaled"], 1))
    rows = {row[0]: row for row in timing_table(results).rows}
    assert rows["Iris"][6] == "87.5"
    assert rows["Letters-scaled"][6] == "14"
    assert rows["Letters-scaled"][1] == "12000"
    assert rows["Letters-scaled"][4] == rows["Letters-scaled"][7] == ""
    uni, lmnn = (results.cells["iris", f"time-{m}"].mean for m in ("uni", "lmnn"))
    assert float(rows["Iris"][5]) == pytest.approx(lmnn / uni, rel=1e-2)


def test_markdown_escapes_bars():
    text = TextTable("T", ["a", "b"], [["x|y", "1"]], "note").markdown()
    assert "| x\\|y | 1 |" in text
    assert text.endswith("note\n")


def test_rich():
    from rich.console import Console

    console = Console(file=io.StringIO(), width=60)
    table = TextTable("Title", ["a", "b"], [["x", "[1.80] (−)"], ["y", "[red]"]], "note")
    console.print(*table.rich(60), sep="\n")
    for text in ("[1.80] (−)", "[red]", "note"):
        assert text in console.file.getvalue()


def test_narrow_terminal_shows_all_cells():
    from rich.console import Console

    results = collect(SMALL, records_of(SMALL, SMALL.problems))
    table = main_table(results)
    parts = table.parts(80)
    assert len(parts) > 1
    assert [c for part in parts for c in part.columns[1:]] == table.columns[1:]
    assert all(part.columns[0] == "method" for part in parts)
    assert [part.note for part in parts] == [""] * (len(parts) - 1) + [table.note]
    console = Console(file=io.StringIO(), width=80)
    console.print(*table.rich(80), sep="\n")
    shown = console.file.getvalue()
    assert "…" not in shown
    for row in table.rows:
        assert all(cell in shown for cell in row)
    assert len(table.parts(10_000)) == 1


def test_csv():
    results = collect(SMALL, records_of(SMALL, ["iris"]))
    rows = list(csv.DictReader(io.StringIO(csv_text([results]))))
    assert len(rows) == len(SMALL.methods)
    uni = next(row for row in rows if row["method"] == "uni")
    assert float(uni["mean"]) == pytest.approx(results.cells["iris", "uni"].mean, rel=1e-5)
    assert (uni["splits"], uni["paper_mean"], uni["unit"]) == ("3", "3.33", "error, %")
    assert float(uni["mean_with_validation_rows"]) == pytest.approx(
        results.cells["iris", "uni"].mean / 2, rel=1e-5
    )
    nca = next(row for row in rows if row["method"] == "nca")
    assert nca["paper_mean"] == ""


def test_pm():
    assert pm(1.234, 0.567) == "1.23 ± 0.57"
    assert pm(1.234, float("nan"), 3) == "1.234"


def test_files_and_page(tmp_path):
    results = collect(SMALL, records_of(SMALL, ["iris", "wine"]))
    empty = collect(EXPERIMENTS["timing"], {})
    names = [path.name for path in write_files([results, empty], tmp_path / "new")]
    assert names == ["small.md", "small_ranks.svg", "results.csv"]
    page = write_page([results, empty], tmp_path / "report.html", isomap=None).read_text("utf-8")
    assert "critical difference" in page
    assert page.count("<svg") == 2
    assert "M_E^UNI" in page


def test_page_keeps_its_introduction(tmp_path):
    results = collect(SMALL, records_of(SMALL, ["iris", "wine"]))
    page = tmp_path / "small.md"
    page.write_text("# By hand\n\nWhy.\n\n<!-- tables -->\nold")
    write_files([results], tmp_path)
    text = page.read_text("utf-8")
    assert text.startswith("# By hand\n\nWhy.\n\n<!-- tables -->\n\n## ")
    assert "old" not in text
    assert "(small_ranks.svg)" in text
    figure = (tmp_path / "small_ranks.svg").read_bytes()
    write_files([results], tmp_path)
    assert page.read_text("utf-8") == text
    assert (tmp_path / "small_ranks.svg").read_bytes() == figure


def test_diagram_names_all_methods():
    results = collect(SMALL, records_of(SMALL, ["iris", "wine", "german"]))
    ranking = rankings(results)["six methods"]
    figure = critical_difference_diagram(ranking)
    texts = [text.get_text() for text in figure.axes[0].texts]
    for name, rank in zip(ranking.methods, ranking.ranks, strict=True):
        assert f"{name}  {rank:.2f}" in texts


def test_isomap(monkeypatch):
    monkeypatch.delenv("GENMETRIC_DATA", raising=False)
    table, figure = isomap_table(n_each=60)
    errors = {row[0]: float(row[1]) for row in table.rows}
    assert len(figure.axes) == len(errors) == 3
    assert "180 images" in table.note
    assert "scikit-learn" in table.note
    assert errors["GenerativeMetric, from labels"] < 30
