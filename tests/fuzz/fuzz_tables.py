"""Damaged and hostile tables: each is read, or refused with one line, in bounded memory.

Run as ``python tests/fuzz/fuzz_tables.py SECONDS [ATTEMPTS]``. A process of its own reads the
tables, so that a crash is counted and not the end. The exit code is 1 if a table crashed the
process, took 20 seconds, or raised anything else than a TableError; the table is then left in a
folder that is named.
"""

import collections
import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np

N_ROWS = 40

#: Bytes that a process may take beyond those it starts with.
MEMORY = 1 << 30

#: Parts of text that readers stumble over.
TOKENS = [
    b'"',
    b",",
    b";",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"{",
    b"}",
    b"[",
    b"null",
]
TOKENS += [
    b"1e999",
    b"-" * 50,
    b"9" * 400,
    b"," * 3000,
    b"\n" * 3000,
    b"[" * 3000,
    b"\\ud800",
    b"<",
    b"&",
]


def seeds():
    """Return tables of each format by name."""
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=N_ROWS),
            "t": [f"w{i % 7}" for i in range(N_ROWS)],
            "c": pd.Categorical(["u", "v"] * (N_ROWS // 2)),
            "e": [[1.0, i] for i in range(N_ROWS)],
            "d": pd.date_range("2020-01-01", periods=N_ROWS),
            "p": [f"{1000 + i:,} €" for i in range(N_ROWS)],
            "y": ["yes" if i % 3 else "no" for i in range(N_ROWS)],
        }
    )
    flat = frame.drop(columns="e")
    tables = {"csv": flat.to_csv(index=False).encode()}
    tables["csv.gz"] = gzip.compress(tables["csv"], mtime=0)
    rows = frame.assign(d=frame["d"].astype(str)).to_dict("records")
    tables["jsonl"] = "".join(json.dumps(row) + "\n" for row in rows).encode()
    for name, write, options in (
        ("parquet", frame.to_parquet, {}),
        ("feather", frame.to_feather, {"compression": "uncompressed"}),
        ("feather lz4", frame.to_feather, {"compression": "lz4"}),
        ("xlsx", flat.to_excel, {"index": False}),
    ):
        file = io.BytesIO()
        write(file, **options)
        tables[name] = file.getvalue()
    return tables


def mutate(data, rng, *, is_text):
    """Return bytes with some places changed, cut, repeated, or filled with extreme values."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        place = int(rng.integers(0, max(1, len(data))))
        kind = rng.integers(0, 6)
        if kind == 0:
            data[place : place + 1] = bytes([rng.integers(0, 256)])
        elif kind == 1:
            del data[place : place + int(rng.integers(1, 30))]
        elif kind == 2:
            data[place:place] = data[place : place + int(rng.integers(1, 200))]
        elif kind == 3 and rng.random() < 0.2:
            del data[place:]
        elif is_text:
            data[place:place] = TOKENS[rng.integers(0, len(TOKENS))]
        else:
            size = int(rng.choice([1, 4, 8]))
            value = int(rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62])) % 256**size
            data[place : place + size] = value.to_bytes(size, "little")
    return bytes(data)


def mutate_inside(name, data, rng):
    """Return a damaged table; half of the archives are damaged inside."""
    if rng.random() < 0.5 and name == "csv.gz":
        return gzip.compress(mutate(gzip.decompress(data), rng, is_text=True), mtime=0)
    if rng.random() < 0.5 and name == "xlsx":
        file = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
            names = old.namelist()
            chosen = names[rng.integers(0, len(names))]
            for member in names:
                content = old.read(member)
                new.writestr(
                    member, mutate(content, rng, is_text=True) if member == chosen else content
                )
        return file.getvalue()
    return mutate(data, rng, is_text=name in ("csv", "jsonl"))


def attempt(data):
    """Read a table and encode it; return what happened."""
    from genmetric.tables import TableEncoder, TableError, read_table

    try:
        frame = read_table(data, max_bytes=1 << 28)
        TableEncoder().fit(frame).transform(frame)
    except TableError as error:
        if "\n" in str(error):
            return f"more than one line: {error}"
        return "out of memory" if isinstance(error.__cause__, MemoryError) else "refused"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "read"


def work(seed, seconds, n_attempts, folder):
    """Try damaged tables, and print a line of JSON after each."""
    warnings.simplefilter("ignore")
    tables = seeds()
    for name, data in tables.items():
        if attempt(data) != "read":
            raise AssertionError(f"the table {name} is not read: {attempt(data)}")
    if sys.platform == "linux":
        import resource

        lines = Path("/proc/self/status").read_text().splitlines()
        used = next(int(line.split()[1]) for line in lines if line.startswith("VmData")) << 10
        resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, used + MEMORY))
    rng, end = np.random.default_rng(seed), time.monotonic() + seconds
    for i in range(n_attempts):
        if time.monotonic() > end:
            return
        name = list(tables)[i % len(tables)]
        data = mutate_inside(name, tables[name], rng)
        (folder / "last").write_bytes(data)
        start = time.process_time()
        result = attempt(data)
        if time.process_time() - start > 20:
            result = f"slow: {time.process_time() - start:.0f} s"
        sys.stdout.write(json.dumps([name, result]) + "\n")
        sys.stdout.flush()


def run(seconds, n_attempts=10**9):
    """Start processes until the time is over; print counts, and return the number of failures."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz_tables_"))
    counts = collections.Counter()
    n_failures, end, seed = 0, time.monotonic() + seconds, 0
    while time.monotonic() < end and counts.total() < n_attempts:
        words = [seed, end - time.monotonic(), n_attempts - counts.total(), folder]
        command = [sys.executable, __file__, "--work", *map(str, words)]
        # pyarrow's own pool keeps the address space of large requests, which the limit counts.
        env = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
            for line in process.stdout:
                name, result = json.loads(line)
                known = result in ("read", "refused", "out of memory")
                counts[name, result if known else "FAILED"] += 1
                if not known:
                    n_failures += 1
                    (folder / f"failure{n_failures}").write_bytes((folder / "last").read_bytes())
                    print(f"{name}: {result} ({folder}/failure{n_failures})")
        if process.returncode:
            n_failures += 1
            (folder / f"failure{n_failures}").write_bytes((folder / "last").read_bytes())
            print(f"the process ended with {process.returncode} ({folder}/failure{n_failures})")
        seed += 1
    for (name, result), count in sorted(counts.items()):
        print(f"{name:12} {result:14} {count}")
    print(f"{counts.total()} tables, {n_failures} failures")
    return n_failures


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work(int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
    else:
        sys.exit(run(float(sys.argv[1]), *map(int, sys.argv[2:])) > 0)
