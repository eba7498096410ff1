"""Scores on disk: one line each, written when it is known, so that a run can stop at any time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class Key(NamedTuple):
    """What a score is of; `protocol` is the hash of how it was made."""

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
        Scores; `validation` is None where nothing was chosen.
    seconds : float
        Time that the method took, all of its grid.
    chosen, extra : dict
        The setting that was chosen, and further figures.
    """

    key: Key
    test: float
    validation: float | None
    seconds: float
    chosen: Mapping[str, Any]
    extra: Mapping[str, Any]

    def line(self) -> str:
        """The record as a line of JSON."""
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
        """The record that a line holds; ValueError where it is none."""
        try:
            d = json.loads(line)
            key = Key(d["set"], d["method"], int(d["split"]), d["protocol"])
            return cls(
                key, float(d["test"]), d["validation"], d["seconds"], d["chosen"], d["extra"]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"No record of a score: {line[:60]!r}.") from error


class Store:
    """An appending file of records.

    Every record is flushed to the disk before the next is begun. A line that a power cut tore is
    skipped when the file is read, and the next record begins on a line of its own.

    Parameters
    ----------
    path : path-like
        The file; it need not exist.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from genmetric.study.store import Key, Record, Store
    >>> store = Store(Path(tempfile.mkdtemp()) / "scores.jsonl")
    >>> store.append([Record(Key("iris", "uni", 0, "abc"), 3.3, 0.0, 0.1, {"k": 3}, {})])
    >>> store.read()[Key("iris", "uni", 0, "abc")].test
    3.3
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> dict[Key, Record]:
        """All records by key; of several with one key the last."""
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
        # A torn line may end within a character.
        return self.path.read_bytes().decode("utf-8", "replace").splitlines()

    def append(self, records: Iterable[Record]) -> None:
        """Write records to the end of the file, and to the disk."""
        text = "".join(record.line() + "\n" for record in records)
        if not text:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            if self._is_torn():
                text = "\n" + text
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def _is_torn(self) -> bool:
        """Whether the last line has no end."""
        if self.path.stat().st_size == 0:
            return False
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
