"""The transformers of cells: numbers, booleans, categories, dates and vectors."""

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from genmetric.tables import (
    BooleanParser,
    CategoryPooler,
    DateEncoder,
    NumberParser,
    VectorExpander,
)
from genmetric.tables._numbers import FORMATS, NumberFormat, choose_format, common_unit

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")


def frame(**columns):
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    ("cells", "decimal", "thousands", "values"),
    [
        (["988", "2,848"], ".", ",", [988, 2848]),
        (["2,5", "3", "0,123"], ",", "", [2.5, 3, 0.123]),
        (["1.234,5", "7"], ",", ".", [1234.5, 7]),
        (["1 234,5", "1\u202f000"], ",", " ", [1234.5, 1000]),
        (["1'234.5", "12"], ".", "'", [1234.5, 12]),
        (["$1,200", "€ 3", "-$4.5", "5 €"], ".", ",", [1200, 3, -4.5, 5]),
        (["€ -3.832,68", "€-5", "$+1,5", "-7"], ",", ".", [-3832.68, -5, 1.5, -7]),
        (["1e3", "-.5", "+2.", "\u22121"], ".", "", [1000, -0.5, 2, -1]),
    ],
)
def test_formats_of_numbers(cells, decimal, thousands, values):
    choice = choose_format(dict.fromkeys(cells, 1))
    assert (choice.format.decimal, choice.format.thousands) == (decimal, thousands)
    parser = NumberParser(decimal, thousands)
    assert parser.fit_transform(frame(a=cells)).ravel().tolist() == values


def test_ambiguous_commas_separate_thousands_and_the_doubt_is_known():
    choice = choose_format({"988": 1, "2,848": 1})
    assert choice.format == NumberFormat(".", ",")
    assert choice.alternative == NumberFormat(",", "")
    # A leading zero, or groups that are not of three digits, leave no doubt.
    for cells in (["0,848", "988"], ["2,84", "2,848"]):
        choice = choose_format(dict.fromkeys(cells, 1))
        assert (choice.format.decimal, choice.alternative) == (",", None)
    assert choose_format({"2,848": 1}, decimal=",").format == NumberFormat(",", "")


@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20),
    st.sampled_from([f for f in FORMATS if f.thousands]),
)
def test_written_integers_are_read_back(numbers, format_):
    """No choice of a format may change an integer that is written with its separators."""
    texts = [f"{n:,}".replace(",", format_.thousands) for n in numbers]
    assert [format_.parse(t) for t in texts] == numbers
    choice = choose_format(dict.fromkeys(texts, 1))
    read = [choice.format.parse(t) for t in texts]
    doubtful = choice.alternative is not None
    assert read == numbers or doubtful


def test_percentages_are_fractions():
    cells = frame(a=["57%", "3.5 %", "-100%"])
    assert choose_format(dict.fromkeys(cells["a"], 1)).format.percent
    assert NumberParser(percent=True).fit_transform(cells).ravel().tolist() == [0.57, 0.035, -1.0]


def test_cells_that_are_not_numbers_are_named():
    parser = NumberParser().fit(frame(a=["1", "2"]))
    with pytest.raises(ValueError, match=r"column 'a': 'oops' in row 1 is not a number; 2 of 3"):
        parser.transform(frame(a=["1", "oops", "3"]))
    with pytest.raises(ValueError, match="'2,848' in row 0 is not a number"):
        parser.transform(frame(a=["2,848"]))


@pytest.mark.parametrize(
    "word", ["", "NA", "n/a", "None", "-", "--", ".", "missing", "unknown", "?"]
)
def test_missing_words(word):
    cells = frame(a=["1", word])
    assert np.isnan(NumberParser().fit_transform(cells)[1, 0])
    assert CategoryPooler(min_count=1).fit_transform(cells)[1, 0] == "missing"
    with pytest.raises(ValueError, match="is not a number"):
        NumberParser(missing_words=["nothing"]).fit(frame(a=["1", "NA"]))


def test_booleans():
    cells = frame(a=["Yes", "no", None], b=[True, False, True])
    assert BooleanParser().fit_transform(cells)[:2].tolist() == [[1, 1], [0, 0]]
    with pytest.raises(
        ValueError, match="column 'a': 'perhaps' in row 0 is neither true nor false"
    ):
        BooleanParser().fit(frame(a=["perhaps"]))


def test_rare_unknown_and_missing_categories():
    pooler = CategoryPooler(min_count=2).fit(frame(c=["a", "a", "b", "b", "rare", None]))
    assert pooler.categories_[0].tolist() == ["a", "b"]
    found = pooler.transform(frame(c=["a", "new", " b ", None, "rare"])).ravel()
    assert found.tolist() == ["a", "other", "b", "missing", "other"]


def test_categories_of_numbers_do_not_depend_on_gaps():
    whole, gaps = frame(c=[1, 2, 1, 2]), frame(c=[1.0, 2.0, None, 1.0])
    pooler = CategoryPooler(min_count=1).fit(whole)
    assert pooler.transform(gaps).ravel().tolist() == ["1", "2", "missing", "1"]


@pytest.mark.parametrize("least", [0, 1.5, "few"])
def test_invalid_min_count(least):
    with pytest.raises(ValueError, match="min_count must be 'auto' or an integer of at least 1"):
        CategoryPooler(min_count=least).fit(frame(c=["a"]))


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        ("2021-03-04", "iso"),
        ("2021-03-04T05:06:07Z", "iso"),
        ("04.03.2021", "%d.%m.%Y"),
        ("03/04/2021", "%m/%d/%Y"),
        ("25/04/2021", "%d/%m/%Y"),
        ("4 Mar 2021", "%d %b %Y"),
        ("12:30", "%H:%M"),
    ],
)
def test_formats_of_dates(text, format_):
    encoder = DateEncoder().fit(frame(when=[text, None]))
    assert encoder.formats_.tolist() == [format_]
    assert np.isfinite(encoder.transform(frame(when=[text]))).all()


def test_dates_as_text_and_as_time_stamps_agree():
    moments = [dt.datetime(2020, 12, 31, 23, 30), dt.datetime(2021, 1, 1), dt.datetime(2021, 6, 30)]
    stamps = frame(when=pd.to_datetime(moments))
    texts = frame(when=[m.isoformat(" ") for m in moments])
    expected = DateEncoder().fit_transform(stamps)
    assert expected.shape == (3, 7)
    assert (DateEncoder().fit_transform(texts) == expected).all()
    polars = pl.DataFrame({"when": moments})
    assert (DateEncoder().fit_transform(polars) == expected).all()
    zoned = frame(when=pd.to_datetime(moments).tz_localize("Europe/Berlin").tz_convert("UTC"))
    assert DateEncoder().fit(zoned).transform(stamps).shape == (3, 7)
    # The end of a year is near its beginning, and far from its middle.
    year = expected[:, 1:3]
    assert np.linalg.norm(year[0] - year[1]) < 0.1 < np.linalg.norm(year[0] - year[2])


def test_dates_that_do_not_fit():
    encoder = DateEncoder().fit(frame(when=["2020-01-01"]))
    with pytest.raises(ValueError, match="column 'when': 'soon' is not a date of the format 'iso'"):
        encoder.transform(frame(when=["soon"]))
    with pytest.raises(ValueError, match="no known date format fits all cells"):
        DateEncoder().fit(frame(when=["2020-01-01", "4 May 2020"]))


@pytest.mark.parametrize("library", [pd, pl])
def test_vectors(library):
    table = library.DataFrame({"e": [[1.0, 2.0], [3.0, 4.0]]})
    expander = VectorExpander().fit(table)
    assert expander.transform(table).tolist() == [[1, 2], [3, 4]]
    assert expander.get_feature_names_out().tolist() == ["e_0", "e_1"]
    with pytest.raises(ValueError, match=r"column 'e': expected vectors of 2 numbers, found 3"):
        expander.transform(library.DataFrame({"e": [[1.0, 2.0, 3.0]]}))


@pytest.mark.parametrize(
    "transformer",
    [NumberParser(), BooleanParser(), CategoryPooler(), DateEncoder(), VectorExpander()],
    ids=lambda t: type(t).__name__,
)
def test_common_behaviour(transformer):
    cells = [[0.0]] if isinstance(transformer, VectorExpander) else ["1"]
    if isinstance(transformer, DateEncoder):
        cells = ["2020-01-01"]
    fresh = clone(transformer)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        fresh.transform(frame(a=cells))
    fresh.fit(frame(a=cells))
    assert fresh.n_features_in_ == 1
    with pytest.raises(ValueError, match="feature names"):
        fresh.transform(frame(b=cells))
    with pytest.raises(ValueError, match="2D array"):
        clone(transformer).fit(np.array([1.0, 2.0]))


@pytest.mark.parametrize(
    ("cells", "unit", "numbers"),
    [
        (["1,525 kg", "994 kg"], "kg", [1525, 994]),
        (["1.200,5 m²", "7 m²"], "m²", [1200.5, 7]),
        (["-5 °C", "3.1°C"], "°C", [-5, 3.1]),
        (["1 year", "2 Years", "3 years"], "year", [1, 2, 3]),
        (["90 mg/dL", "88.5 mg/dL"], "mg/dL", [90, 88.5]),
        (["1e5", "2.5E-3"], "", [1e5, 2.5e-3]),
    ],
)
def test_units_of_numbers(cells, unit, numbers):
    choice = choose_format(dict.fromkeys(cells, 1))
    assert choice.format.unit == unit
    assert [choice.format.parse(cell) for cell in cells] == numbers


@pytest.mark.parametrize(
    "cells",
    [
        ["900 g", "1.2 kg"],
        ["5 mW", "3 MW"],
        ["5 m", "3 ms"],
        ["1.5M", "900K"],
        ["3rd", "2nd", "1st"],
        ["12 Main Street", "14 Main Street"],
        ["12:30h", "11:20h"],
        ["2022-07-26T01:28:23Z"],
        ["10-20 years", "20-30 years"],
        ["S001", "S002"],
    ],
)
def test_cells_without_a_common_unit_are_not_numbers(cells):
    assert common_unit(dict.fromkeys(cells, 1)) == ""
    assert choose_format(dict.fromkeys(cells, 1)).n_parsed == 0


def test_a_unit_is_expected_in_new_cells():
    parser = NumberParser(unit="kg").fit(frame(a=["5 kg", "7.5kg"]))
    assert parser.transform(frame(a=["6 kg", "NA"]))[0] == 6
    with pytest.raises(ValueError, match="'6 g' in row 0 is not a number"):
        parser.transform(frame(a=["6 g"]))


@pytest.mark.parametrize(
    ("cells", "unknown", "missing"),
    [
        (["u"] * 5 + ["v"] * 3, "u", "u"),
        (["u"] * 5 + ["v"] * 3 + [None], "other", "missing"),
        (["u"] * 3 + [None] * 5, "u", "missing"),
        (["u"] * 5 + ["rare"], "other", "u"),
        (["u"] * 5 + ["v"] * 3 + ["w"] * 2, "other", "missing"),
    ],
)
def test_two_values_have_no_third(cells, unknown, missing):
    pooler = CategoryPooler(min_count=2, binary=True).fit(frame(c=cells))
    assert pooler.transform(frame(c=["new", None])).ravel().tolist() == [unknown, missing]
    assert (len(set(pooler.transform(frame(c=cells)).ravel())) == 2) == (
        (unknown, missing) != ("other", "missing")
    )
