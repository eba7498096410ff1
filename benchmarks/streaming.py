"""Ten million samples on disk: ``python benchmarks/streaming.py [samples]`` prints a table.

Each figure is of a process of its own, which reads batches as ``genmetric fit`` does. The bound is
three times two reads of the file and one bare product XᵀX over its rows, in CPU seconds,
which other work on the machine does not lengthen.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import Table, progress, relative, short

from genmetric import GenerativeMetric
from genmetric._parallel import one_blas_thread
from genmetric.tables import TableEncoder, read_batches, read_table, split_target

N_FEATURES, N_CLASSES, PIECE = 20, 3, 200_000


def write_files(folder, n_rows):
    """The same rows as Parquet and as CSV, four digits after the point, piece by piece."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)
    shape = (N_CLASSES, N_FEATURES, N_FEATURES)
    mix = np.eye(N_FEATURES) + 0.5 * rng.normal(size=shape) / np.sqrt(N_FEATURES)
    means = rng.normal(size=(N_CLASSES, N_FEATURES))
    kinds = np.array(["ash", "birch", "cedar"])
    names = [f"x{j}" for j in range(N_FEATURES)]
    schema = pa.schema([*((name, pa.float64()) for name in names), ("kind", pa.string())])
    paths = [Path(folder) / f"rows.{ending}" for ending in ("parquet", "csv")]
    with (
        parquet.ParquetWriter(paths[0], schema, use_dictionary=["kind"]) as one,
        csv.CSVWriter(paths[1], schema) as other,
    ):
        for start in range(0, n_rows, PIECE):
            y = rng.integers(N_CLASSES, size=min(PIECE, n_rows - start))
            noise = rng.normal(size=(len(y), N_FEATURES))
            X = np.empty_like(noise)
            for c in range(N_CLASSES):
                X[y == c] = noise[y == c] @ mix[c] + means[c]
            columns = [*np.round(X, 4).T, kinds[y]]
            piece = pa.table(columns, schema=schema)
            one.write_table(piece)
            other.write_table(piece)
    return paths


def in_own_process(*words):
    """What :func:`work` finds, in a process whose peak of memory is its own."""
    command = [sys.executable, __file__, "--work", *map(str, words)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def work(what, path, n_jobs, max_samples):
    """Read or fit, and print seconds, peak of memory and what was found, as JSON."""
    X, _, target = split_target(read_table(path, sample=2000), "kind")
    encoder = TableEncoder().fit(X)

    def batches():
        for rows in read_batches(path):
            yield encoder.transform(rows), target.read(rows)[0]

    found = {"n_rows": 0}
    start, busy = time.perf_counter(), time.process_time()
    if what == "read":
        for x, _ in batches():
            found["n_rows"] += len(x)
    elif what == "product":
        x = np.ascontiguousarray(next(iter(batches()))[0])
        start, busy = time.perf_counter(), time.process_time()
        with one_blas_thread():
            for _ in range(10):
                x.T @ x
        found["n_rows"] = 10 * len(x)
    else:
        share = None if max_samples == "all" else int(max_samples)
        metric = GenerativeMetric(n_jobs=int(n_jobs), max_samples=share, random_state=0)
        metric.fit_batches(batches)
        found["metric"], found["stderr"] = metric.metric_.tolist(), metric.metric_stderr_
    found["seconds"], found["busy"] = time.perf_counter() - start, time.process_time() - busy
    found["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps(found))


def streaming(n_rows=10_000_000):
    """Time and memory of a fit of many rows against those of reading them."""
    columns = ["file", "GB", "what", "seconds", "of processors", "samples per second"]
    columns += ["against the bound", "peak MB"]
    table = Table(
        f"{n_rows / 1e6:g} million rows of {N_FEATURES} columns, {N_CLASSES} classes",
        [*columns, "standard error", "off by"],
    )
    full, samples = None, (1_000_000, 100_000)
    with tempfile.TemporaryDirectory() as folder:
        progress("writing the files")
        for path in write_files(folder, n_rows):
            size = f"{path.stat().st_size / 1e9:.1f}"
            product = in_own_process("product", path, 1, "all")
            reads = [in_own_process("read", path, 1, "all") for _ in range(2)]
            assert all(read["n_rows"] == n_rows for read in reads)
            read = min(reads, key=lambda found: found["busy"])
            bound = 3 * (2 * read["busy"] + product["busy"] / product["n_rows"] * n_rows)
            table.add(
                *(path.name, size, "one read", short(read["seconds"]), short(read["busy"])),
                *(f"{n_rows / read['seconds']:.3g}", "", f"{read['megabytes']:.0f}", "", ""),
            )
            for share in ("all", *samples) if full is None else samples:
                progress(f"{path.name}, local metrics of {share} rows")
                found = in_own_process("fit", path, 2, share)
                metric = np.array(found["metric"])
                full = metric if full is None else full
                table.add(
                    *(path.name, size, f"fit, average over {share} rows"),
                    *(short(found["seconds"]), short(found["busy"])),
                    f"{n_rows / found['seconds']:.3g}",
                    f"{found['busy'] / bound:.2f}",
                    f"{found['megabytes']:.0f}",
                    *(f"{found['stderr']:.1e}", f"{relative(metric, full):.1e}"),
                )
    return table


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
    else:
        streaming(*map(int, sys.argv[1:]))
