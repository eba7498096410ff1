"""Tables of the kinds that people have, each with its task and what its columns are.

A test that takes the fixture `table_kind` runs once for each of them.
"""

import csv
import datetime as dt
import gzip
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial


@dataclass(frozen=True)
class Kind:
    """One kind of table.

    `make(n)` returns the expected kind and the cells of each column; that of the target is its
    task. `words` are parts of what is said about the table, and `options` those that it needs, as
    keyword arguments of the functions of `genmetric.tables`.
    """

    name: str
    make: Callable
    target: str = "y"
    words: tuple[str, ...] = ()
    options: dict = field(default_factory=dict)
    write: Callable = None
    file: str = "t.csv"
    n_rows: int = 24

    def data(self, n_rows=None):
        """Return the bytes of the file."""
        columns = self.make(n_rows or self.n_rows)
        return self.write({name: list(cells) for name, (_, cells) in columns.items()})

    def save(self, folder, n_rows=None):
        """Write the file to a folder and return its path."""
        path = folder / self.file
        path.write_bytes(self.data(n_rows))
        return path

    @property
    def columns(self):
        """What each column is expected to be; the target is not among them."""
        kinds = {name: kind for name, (kind, _) in self.make(self.n_rows).items()}
        return {name: kind for name, kind in kinds.items() if name != self.target}

    @property
    def task(self):
        """The expected task."""
        return self.make(self.n_rows)[self.target][0]

    def command_options(self, *, new_rows=False):
        """Return the options of a command; those of new rows are fewer."""
        flags = {"na_values": "--na", "sheet": "--sheet", "header": "--no-header"}
        flags |= {} if new_rows else {"thousands": "--thousands", "as_number": "--as-number"}
        given = {flags[name]: value for name, value in self.options.items() if name in flags}
        return [
            word for flag, value in given.items() for word in ([flag, value] if value else [flag])
        ]

    def _some_options(self, *names):
        return {name: value for name, value in self.options.items() if name in names}

    def read(self, source=None):
        """Read the table in Python."""
        from genmetric.tables import read_table

        options = self._some_options("thousands", "header", "sheet")
        return read_table(self.data() if source is None else source, **options)

    def decide(self):
        """Return features, target, what it is, a fitted encoder, and all that is said."""
        from genmetric.tables import TableEncoder, split_target

        frame, options = self.read(), self._some_options("thousands", "na_values")
        options |= {name: [value] for name, value in options.items() if name == "na_values"}
        X, y, target = split_target(frame, self.target, **options)
        as_number = self._some_options("as_number").values()
        encoder = TableEncoder(as_number=list(as_number), **options).fit(X)
        said = [target.summary, *target.notes, *frame.attrs["notes"]]
        said += [*encoder.summary().splitlines(), *encoder.notes_]
        return X, y, target, encoder, "\n".join(said)


def csv_bytes(columns, delimiter=",", encoding="utf-8", before="", header=True):
    """Columns as a CSV file."""
    file = io.StringIO()
    file.write(before)
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerows([list(columns)] if header else [])
    writer.writerows(zip(*columns.values(), strict=True))
    return file.getvalue().encode(encoding)


def json_lines(columns):
    """Columns as JSON lines."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def frame_bytes(columns, method, **options):
    """Columns as a file that pandas writes."""
    import pandas as pd

    file = io.BytesIO()
    getattr(pd.DataFrame(columns), f"to_{method}")(file, **options)
    return file.getvalue()


def workbook(columns):
    """Columns on the second sheet of an Excel file, below a title."""
    import pandas as pd

    file = io.BytesIO()
    with pd.ExcelWriter(file) as writer:
        pd.DataFrame({"about": ["nothing"] * 3}).to_excel(writer, sheet_name="about", index=False)
        frame = pd.DataFrame(columns)
        frame.to_excel(writer, sheet_name="data", index=False, startrow=2)
    return file.getvalue()


KINDS: list[Kind] = []


def table(*words, target="y", write=csv_bytes, file="t.csv", n_rows=24, **options):
    """Register a kind of table."""

    def register(make):
        KINDS.append(Kind(make.__name__, make, target, words, options, write, file, n_rows))
        return make

    return register


def is_rare(i):
    """Whether a row is of the second class: two of 24, so that a comparison takes two folds."""
    return i % 12 == 5


def signal(n):
    """Numbers that tell the classes apart."""
    return [round(is_rare(i) * 3 + (i * 7 % 11) / 10, 2) for i in range(n)]


def noise(n):
    """Numbers that tell nothing."""
    return [round((i * 13 % 17) / 3, 3) for i in range(n)]


def cycle(values, n):
    """Values in turn."""
    return [values[i % len(values)] for i in range(n)]


def known(n):
    """A column of numbers, and the classes."""
    classes = ["no" if is_rare(i) else "yes" for i in range(n)]
    return {"a": ("number", signal(n)), "y": ("classification", classes)}


@table(
    "PassengerId (a row counter)",
    "Name (free text)",
    "Ticket (an identifier",
    "Age 5",
    "Sex (2 values)",
    "Survived: 2 classes (0, 1)",
    target="Survived",
)
def titanic(n):
    return {
        "PassengerId": ("left out", range(1, n + 1)),
        "Survived": ("classification", [int(is_rare(i)) for i in range(n)]),
        "Pclass": ("number", cycle([1, 2, 3], n)),
        "Name": ("left out", [f"Braund, Mr. Owen Harris the {i}th" for i in range(n)]),
        "Sex": ("category", cycle(["male", "female"], n)),
        "Age": ("number", [None if i % 5 == 0 else 20 + i for i in range(n)]),
        "Ticket": ("left out", [f"A/5 {21171 + 7 * i}" for i in range(n)]),
        "Fare": ("number", [7.25 + s for s in signal(n)]),
        "Cabin": ("category", [f"C{i}" if i % 4 == 0 else None for i in range(n)]),
        "Embarked": ("category", cycle("SCQ", n)),
    }


@table("island (3 values)", "bill 2", "sex 3: a category of its own", target="species")
def penguins(n):
    sexes = cycle(["male", "female"], n)
    return {
        "species": ("classification", ["Adelie" if is_rare(i) else "Gentoo" for i in range(n)]),
        "island": ("category", cycle(["Biscoe", "Dream", "Torgersen"], n)),
        "bill": ("number", ["NA" if i in (3, 9) else s for i, s in enumerate(signal(n))]),
        "sex": ("category", ["NA" if i in (3, 4, 7) else s for i, s in enumerate(sexes)]),
    }


@table("horsepower 2", "car name (free text)", target="origin")
def cars(n):
    return {
        "mpg": ("number", signal(n)),
        "horsepower": ("number", ["?" if i in (1, 8) else 90 + i for i in range(n)]),
        "car name": ("left out", [f"chevrolet chevelle malibu no {i}" for i in range(n)]),
        "origin": ("classification", [1 + is_rare(i) for i in range(n)]),
    }


@table("income: 2 classes (<=50K, >50K)", target="income")
def adult(n):
    return {
        "age": ("number", [25 + i for i in noise(n)]),
        "workclass": ("category", cycle(["Private", "State-gov", "?"], n)),
        "hours": ("number", [40 + s for s in signal(n)]),
        "income": ("classification", [">50K" if is_rare(i) else "<=50K" for i in range(n)]),
    }


@table("a (0,0 is read as 0", write=partial(csv_bytes, delimiter=";"))
def decimal_commas(n):
    return known(n) | {"a": ("number", [str(s).replace(".", ",") for s in signal(n)])}


@table("price (2,848 is read as 2848)", "'2,848' is read as 2848; with the decimal separator ','")
def thousands_separators(n):
    return known(n) | {"price": ("number", cycle(["2,848", "988"], n))}


@table("a (1.234 is read as 1234)", thousands=".")
def thousands_points(n):
    return known(n) | {"a": ("number", cycle(["1.234", "5.678", "988"], n))}


@table(
    "price (1.250,5 is read as 1250.5)",
    "weight (1.234 is read as 1234)",
    write=partial(csv_bytes, delimiter=";"),
)
def european_export(n):
    return known(n) | {
        "price": ("number", [f"1.25{i % 10},5" for i in range(n)]),
        "weight": ("number", cycle(["988", "1.234"], n)),
    }


@table("share (", "is read as 0")
def percentages(n):
    return known(n) | {"share": ("number", [f"{10 * s}%" for s in signal(n)])}


@table("cost ($1,20")
def currencies(n):
    return known(n) | {"cost": ("number", [f"${1200 + 10 * i:,}" for i in range(n)])}


@table("EUR 12.5 is read as 12.5", "(1,234.00) is read as -1234", "3.5- is read as -3.5")
def bank_statement(n):
    return known(n) | {
        "paid": ("number", cycle(["EUR 12.5", "7 USD", "CHF 9.5", "3 kr"], n)),
        "balance": ("number", cycle(["(1,234.00)", "56.75", "(7.50)", "1,002.25"], n)),
        "change": ("number", cycle(["3.5-", "4", "7.25", "8-"], n)),
    }


@table(
    "'<0.5' is read as 0.5, like all limits (cells: 5)",
    "120/80 is read as 120 and 80",
    "marker (90 mg/dL is read as 90)",
)
def laboratory(n):
    return known(n) | {
        "crp": ("number", cycle(["<0.5", "3.1", "0.7", "12.5", "2"], n)),
        "pressure": ("number", cycle(["120/80", "135/85", "110/70"], n)),
        "marker": ("number", cycle(["90 mg/dL", "88.5 mg/dL", "101 mg/dL"], n)),
    }


@table("1h 30min is read as 5400", "day", "at")
def call_log(n):
    return known(n) | {
        "length": ("number", cycle(["1h 30min", "45min", "2h"], n)),
        "day": ("date", cycle(["Monday", "Tue", "sunday"], n)),
        "at": ("date", cycle(["9:30 AM", "11:15 PM", "1:05 PM"], n)),
        "back": ("date", cycle(["9am", "11pm", "1 pm"], n)),
        "waited": ("number", cycle(["26:05:00", "00:30:10", "01:00:00"], n)),
    }


@table(
    "strongly disagree < disagree < neutral < agree",
    "s < m < l < xl",
    "18-25 is read as 21.5",
)
def survey(n):
    answers = ["Agree", "neutral", "Disagree", "Strongly disagree"]
    return known(n) | {
        "answer": ("ordered", cycle(answers, n)),
        "size": ("ordered", cycle(["S", "XL", "M", "L"], n)),
        "age": ("ordered", cycle(["18-25", "26-35", "36-45", "65+"], n)),
    }


def _days(n):
    return [dt.date(2020, 1, 1) + dt.timedelta(17 * i) for i in range(n)]


@table("dates")
def dates(n):
    return known(n) | {
        "when": ("date", [day.isoformat() for day in _days(n)]),
        "seen": ("date", [day.strftime("%d.%m.%Y %H:%M") for day in _days(n)]),
    }


@table("dates")
def mixed_dates(n):
    forms = cycle(["%Y-%m-%d", "%d.%m.%Y", "%d %B %Y"], n)
    mixed = [day.strftime(form) for day, form in zip(_days(n), forms, strict=True)]
    return known(n) | {"when": ("date", mixed)}


@table("'03/04/2020' are read month first")
def ambiguous_dates(n):
    return known(n) | {"when": ("date", [f"03/{4 + i % 8:02}/2020" for i in range(n)])}


@table("customer_id (an identifier", "uuid (an identifier")
def identifiers(n):
    return known(n) | {
        "customer_id": ("left out", [10_000 + 7919 * i % 90_000 for i in range(n)]),
        "uuid": ("left out", [f"{7919 * i:08x}" for i in range(n)]),
    }


@table("numbers")
def decimals_that_are_all_different(n):
    return known(n) | {
        "sensor_id": ("number", [7919 * i % 1000 + 0.5 for i in range(n)]),
        "level": ("number", [f"{i * i}.25" for i in range(n)]),
    }


@table("comment (free text)")
def free_text(n):
    texts = [f"the parcel, number {i}, arrived late and was damaged" for i in range(n)]
    return known(n) | {"comment": ("left out", texts)}


@table("column 'remark' is left out, but 18 of 24 cells are numbers (--as-number remark)")
def numbers_and_text(n):
    return known(n) | {
        "remark": ("left out", [f"{i}.5" if i % 4 else f"see {i}" for i in range(n)])
    }


@table("remark 6: imputed", as_number="remark")
def text_read_as_numbers(n):
    return known(n) | {"remark": ("number", numbers_and_text(n)["remark"][1])}


@table(write=partial(csv_bytes, encoding="utf-8-sig"))
def byte_order_mark(n):
    return known(n)


@table("is read as cp1252 (--encoding)", write=partial(csv_bytes, encoding="latin-1"))
def latin_1(n):
    return known(n) | {
        "Größe": ("number", noise(n)),
        "stadt": ("category", cycle(["Köln", "Bonn"], n)),
    }


@table("mixes UTF-8 and cp1252", write=lambda columns: csv_bytes(columns) + b"1,Bonn\xe9,yes\n")
def mixed_encodings(n):
    return {
        "a": ("number", signal(n)),
        "stadt": ("category", cycle(["Köln", "Bonn"], n)),
        "y": known(n)["y"],
    }


@table(write=partial(csv_bytes, delimiter="\t", encoding="utf-16"), file="t.txt")
def utf_16_with_tabs(n):
    return known(n)


_COMMENTS = "# exported by a machine\n# on Monday\nTable of results\n"


@table("3 lines above the header are skipped", write=partial(csv_bytes, before=_COMMENTS))
def comment_lines(n):
    return known(n) | {"b": ("number", noise(n))}


_TITLE = "Sales of 2020,,\n,,\nin euros,,\n"


@table("2 lines above the header are skipped", write=partial(csv_bytes, before=_TITLE))
def padded_titles(n):
    return known(n) | {"b": ("number", noise(n))}


@table(target="column_2", write=partial(csv_bytes, header=False), header=False)
def no_header(n):
    return {"column_1": ("number", signal(n)), "column_2": known(n)["y"]}


@table(
    "repeated column names are changed to 'a_2'",
    write=lambda columns: csv_bytes(columns).replace(b"a_2", b"a", 1),
)
def duplicate_names(n):
    return known(n) | {"a_2": ("number", noise(n))}


def _with_ragged_row(columns):
    return csv_bytes(columns) + b"1,yes,2\n"


@table("line 26 has 3 cells, the header has 2; skipped (rows: 1)", write=_with_ragged_row)
def ragged_row(n):
    return known(n)


@table("2 rows have no target 'y' and are not used (first: line 2)")
def missing_targets(n):
    columns = known(n)
    return {
        "a": ("number", [1, 2, *columns["a"][1]]),
        "y": ("classification", ["", "?", *columns["y"][1]]),
    }


@table("booleans")
def yes_and_no(n):
    return known(n) | {
        "flag": ("boolean", cycle(["no", "yes", "yes"], n)),
        "active": ("boolean", cycle(["FALSE", "TRUE", "TRUE", "TRUE", "TRUE"], n)),
    }


@table("nothing (is empty)", "same (is constant, 7)", "word (is constant, 'x')")
def empty_and_constant(n):
    return known(n) | {
        "nothing": ("left out", [None] * n),
        "same": ("left out", [7] * n),
        "word": ("left out", ["x"] * n),
    }


@table("rare ones pooled", "city (")
def rare_categories(n):
    cities = [["Rome", "Oslo"][i % 2] if i % 3 else f"Village{i}" for i in range(n)]
    return known(n) | {"city": ("category", cities)}


@table("line 8, column 'a': 'oops' is not a number; 23 of 24 cells are")
def one_bad_cell(n):
    cells = ["oops" if i == 6 else s for i, s in enumerate(signal(n))]
    return known(n) | {"a": ("number", cells)}


@table("'inf' is not a number below 1e+100 (2 cells)")
def infinities(n):
    cells = ["inf" if i in (3, 6) else s for i, s in enumerate(signal(n))]
    return known(n) | {"a": ("number", cells)}


@table("a 8: imputed", na_values="-999")
def sentinels(n):
    return known(n) | {"a": ("number", cycle(["1.5", "-999.0", "2"], n))}


@table("income 4")
def unusual_missing_words(n):
    words = ["unknown", "--", "n/a", "None"]
    incomes = [words[i // 6] if i % 6 == 0 else 1000 * s for i, s in enumerate(signal(n))]
    return known(n) | {"income": ("number", incomes)}


@table("zip (2 values)")
def codes_with_zeros(n):
    return known(n) | {"zip": ("category", cycle(["01067", "10115"], n))}


@table("has no name; an index column", write=partial(frame_bytes, method="csv", index=True))
def index_of_pandas(n):
    return known(n)


def _with_row_names(columns):
    header, *lines = csv_bytes(columns).decode().splitlines()
    return "\n".join([header, *(f"r{i},{line}" for i, line in enumerate(lines))]).encode()


@table("the first column has no name", write=_with_row_names)
def row_names_of_r(n):
    return known(n)


@table(
    "engine (1,200 CC is read as 1200)",
    "power (88 bhp is read as 88)",
    "'null bhp' is not a number",
    "temperature (20.5°C is read as 20.5)",
    "load (numbers in different units (kg, g); convert them to one)",
)
def numbers_with_units(n):
    power = [f"{88 + i * 5 % 13} bhp" if i != 7 else "null bhp" for i in range(n)]
    return known(n) | {
        "engine": ("number", [f"{1200 + 37 * (i * 7 % 11):,} CC" for i in range(n)]),
        "power": ("number", power),
        "temperature": ("number", [f"{20.5 + 3 * a}°C" for a in signal(n)]),
        "load": ("left out", [f"{i + 3} {'g' if i % 2 else 'kg'}" for i in range(n)]),
    }


def _pairs(n):
    return list(zip(signal(n), noise(n), strict=True))


@table("embedding (3 entries)", write=partial(frame_bytes, method="parquet"), file="t.parquet")
def list_column(n):
    return {"embedding": ("vector", [[a, b, 1.5 * a - b] for a, b in _pairs(n)])} | {
        "y": known(n)["y"]
    }


@table(
    "tags (lists of something other than numbers)",
    "sizes (lists of different lengths)",
    "place (nested objects; give each entry a column)",
    write=json_lines,
    file="t.jsonl",
)
def json_lines_with_lists(n):
    return known(n) | {
        "tags": ("left out", [["x"] * (1 + i % 2) for i in range(n)]),
        "sizes": ("left out", [[1.5] * (1 + i % 3) for i in range(n)]),
        "place": ("left out", [{"lon": i} for i in range(n)]),
    }


@table("a 2", "colour (2 values)", "vector (2 entries)", write=json_lines, file="t.jsonl")
def json_objects(n):
    return known(n) | {
        "a": ("number", [None if i in (2, 3) else a for i, a in enumerate(signal(n))]),
        "colour": ("category", cycle(["red", "blue"], n)),
        "vector": ("vector", [[a, 1.0 * i] for i, a in enumerate(signal(n))]),
    }


def _purchases(n):
    return known(n) | {
        "size": ("number", [None if i in (1, 2) else s for i, s in enumerate(noise(n))]),
        "colour": ("category", cycle(["red", "blue"], n)),
        "when": ("date", [dt.date(2020, 1, 1) + dt.timedelta(i) for i in range(n)]),
    }


@table("size 2", write=partial(frame_bytes, method="excel", index=False), file="t.xlsx")
def excel(n):
    return _purchases(n)


@table("sheet 'data' of 2 is read", write=workbook, file="t.xlsx", sheet="data")
def excel_sheet(n):
    return _purchases(n)


@table(write=partial(frame_bytes, method="feather"), file="t.feather")
def feather(n):
    import pandas as pd

    return known(n) | {"y": ("classification", pd.Categorical(known(n)["y"][1]))}


@table(write=lambda columns: gzip.compress(csv_bytes(columns), mtime=0), file="t.csv.gz")
def compressed(n):
    return known(n) | {"b": ("number", noise(n))}


@table(
    "hwy: a number, 27 distinct values in 81 rows (--task classification", target="hwy", n_rows=81
)
def fuel_economy(n):
    return {
        "displ": ("number", [2 + (i % 27) / 9 for i in range(n)]),
        "drive": ("category", cycle(["4", "f", "r", "f"], n)),
        "hwy": ("regression", [40 - i % 27 for i in range(n)]),
    }


@table("due: a number, 24 distinct values", "dates are predicted as days", target="due")
def date_target(n):
    return {
        "a": ("number", noise(n)),
        "due": ("regression", [day.isoformat() for day in _days(n)]),
    }


@table("y: 2 classes (no, yes)", "classes of 'y' that differ in case are one: 'Yes' as 'yes'")
def spellings_of_classes(n):
    spelled = [
        ["NO", "no", "no"][i % 3] if is_rare(i) else ["yes", "Yes", "yes"][i % 3] for i in range(n)
    ]
    return {"a": ("number", signal(n)), "y": ("classification", spelled)}


@table(
    "price: a number, 24 distinct values", target="price", write=partial(csv_bytes, delimiter=";")
)
def prices_as_target(n):
    return {
        "rooms": ("number", cycle([1, 2, 3, 4], n)),
        "price": ("regression", [f"{100 + 7 * i}.000,50 €" for i in range(n)]),
    }


@table("y: 3 classes (1, 2, 3) (--task regression")
def coded_classes(n):
    return {"a": ("number", signal(n)), "y": ("classification", cycle([1, 2, 3], n))}


@table("subject (")
def repeated_subjects(n):
    return {
        "subject": ("category", [f"S{i // 4:02}" for i in range(n)]),
        "a": ("number", noise(n)),
        "y": ("classification", ["ill" if i // 4 % 3 == 1 else "well" for i in range(n)]),
    }


@table("dates", n_rows=48)
def sensor_log(n):
    start = dt.datetime(2020, 1, 1)
    return {
        "time": ("date", [(start + dt.timedelta(minutes=i)).isoformat() for i in range(n)]),
        "level": ("number", [round(i / 7 + i % 3 / 10, 2) for i in range(n)]),
        "y": ("classification", ["run" if i // 12 % 2 else "idle" for i in range(n)]),
    }


@table("fraud: 2 classes (0, 1)", target="fraud", n_rows=400)
def rare_class(n):
    return {
        "amount": (
            "number",
            [round(10 + i * 37 % 101 / 3 + 5 * (i % 200 == 7), 2) for i in range(n)],
        ),
        "hour": ("number", cycle([0, 5, 9, 13, 17, 22], n)),
        "fraud": ("classification", [int(i % 200 == 7) for i in range(n)]),
    }


@table("200 used", n_rows=30)
def more_columns_than_rows(n):
    columns = {
        f"g{j}": ("number", [(i * (j + 3) % 211) / 7 + 0.1 for i in range(n)]) for j in range(200)
    }
    return columns | {"y": known(n)["y"]}


@table()
def repeated_rows(n):
    half = known(n // 2)
    return {name: (kind, [*cells, *cells]) for name, (kind, cells) in half.items()}
