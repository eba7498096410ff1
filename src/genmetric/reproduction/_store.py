"""Scores on disk: one line per score, written at once, so that a run can stop at any time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class Key(NamedTuple):
    """Key of a score; `protocol` is a hash of how it was computed."""

    problem: str
    method: str
    split: int
    protocol: str


@dataclass(frozen=True)
class Record:
    """One score.

    Attributes
    ----------
    key : Key
        Problem, method, split and protocol.
    test, validation : float
        Scores; `validation` is None if nothing was selected.
    seconds : float
        Time of the method for its whole grid.
    chosen, extra : dict
        The selected setting, and further results.
    """

    key: Key
    test: float
    validation: float | None
    seconds: float
    chosen: Mapping[str, Any]
    extra: Mapping[str, Any]

    def line(self) -> str:
        """Return the record as a line of JSON."""
        return json.dumps(
            {
                "set": self.key.problem,
                "method": self.key.method,
                "split": self.key.split,
                "protocol": self.key.protocol,
                "validation": self.validation,
                "test": self.test,
                "seconds": round(self.seconds, 4),
                "chosen": self.chosen,
                "extra": self.extra,
            }
        )

    @classmethod
    def of_line(cls, line: str) -> Record:
        """Read a record from a line; raise ValueError if the line is not a record."""
        try:
            d = json.loads(line)
            key = Key(d["set"], d["method"], int(d["split"]), d["protocol"])
            return cls(
                key, float(d["test"]), d["validation"], d["seconds"], d["chosen"], d["extra"]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"Expected a record of a score, got {line[:60]!r}.") from error


class Store:
    """A file of records that only grows.

    Every record is flushed to disk before the next one is computed. An incomplete line, as after a
    power cut, is skipped when the file is read, and the next record starts on a new line.

    Parameters
    ----------
    path : path-like
        The file; it is created with the first record.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from genmetric.reproduction._store import Key, Record, Store
    >>> store = Store(Path(tempfile.mkdtemp()) / "scores.jsonl")
    >>> store.append([Record(Key("iris", "uni", 0, "abc"), 3.3, 0.0, 0.1, {"k": 3}, {})])
    >>> store.read()[Key("iris", "uni", 0, "abc")].test
    3.3
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> dict[Key, Record]:
        """Return all records by key; the last one if a key occurs several times."""
        records = {}
        for line in self._lines():
            try:
                record = Record.of_line(line)
            except ValueError:
                continue
            records[record.key] = record
        return records

    def _lines(self) -> list[str]:
        if not self.path.exists():
            return []
        # An incomplete line may end inside a character.
        return self.path.read_bytes().decode("utf-8", "replace").splitlines()

    def append(self, records: Iterable[Record]) -> None:
        """Append records to the file and flush it to disk."""
        text = "".join(record.line() + "\n" for record in records)
        if not text:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.path.open("ab") as file:
                if self._is_torn():
                    text = "\n" + text
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            # Errors of a write, such as a full disk, do not have the name of the file.
            raise type(error)(error.errno, error.strerror, str(self.path)) from error

    def _is_torn(self) -> bool:
        """Return whether the last line lacks a newline."""
        if self.path.stat().st_size == 0:
            return False
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
