"""Damage model files and load them: ``python tests/fuzz/fuzz_models.py SECONDS [SEED]``.

Each attempt changes a file that `genmetric.save` wrote, loads it in a process with a limit on
memory, and uses what was loaded. A file may load and predict something else, or be refused with a
ModelFileError of one line; a model that loads may raise an ordinary error when it is used.
Everything else is a defect: another error on load, a signal, a hang, much memory, a new
file, script in the HTML.
"""

import collections
import faulthandler
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import genmetric
from genmetric.files import ModelFileError

#: Bytes of memory beyond those of the imports, seconds per attempt, attempts per process, and the
#: kilobytes that one attempt may take: the files have less than 100.
MEMORY, PATIENCE, ROUND, MOST_KB = 2**30, 20, 50, 400_000

X, Y = load_iris(return_X_y=True)
SCRIPT = "<script>alert(1)</script>"

HUGE = [2**31, 2**40, 2**63, 10**12, 10**18, 10**300, -1, -(2**63), 1e308, 1e-308]
VALUES = [None, True, "", "x", SCRIPT, "a" * 10_000, [], {}, [[]] * 50, {"a": 1}, 0, 0.5, *HUGE]
ATTRIBUTES = [
    "memory",
    "_doc_link_template",
    "_repr_html_",
    "_html_repr",
    "fit",
    "transform",
    "n_jobs",
]
ATTRIBUTES += [
    "__class__",
    "_sk_visual_block_",
    "n_neighbors",
    "steps",
    "classes_",
    "metric_",
    SCRIPT,
]
LOADERS = ["ObjectNode", "JsonNode", "TypeNode", "ListNode", "DictNode", "SetNode", "PartialNode"]
LOADERS += [
    "ConstructorFromReduceNode",
    "MethodNode",
    "FunctionNode",
    "OperatorFuncNode",
    "TreeNode",
]
LOADERS += ["CachedNode", "BytesNode", "NdArrayNode", "SparseMatrixNode", "RandomGeneratorNode"]
TYPES = [("subprocess", "Popen"), ("os", "system"), ("builtins", "eval"), ("joblib", "Memory")]
TYPES += [
    ("sklearn.pipeline", "Pipeline"),
    ("numpy", "void"),
    ("numpy", "dtype"),
    ("builtins", "map"),
]


def models():
    """Return files of several kinds of models."""
    fitted = [
        model.fit(X, Y)
        for model in (
            genmetric.GenerativeMetric(),
            genmetric.LocalMetricClassifier(),
            genmetric.EmbeddingAdapter(),
            genmetric.EnergyClassifier(genmetric.GenerativeMetric()),
            make_pipeline(StandardScaler(), genmetric.GenerativeMetric(), KNeighborsClassifier()),
            make_pipeline(StandardScaler(), LogisticRegression()),
        )
    ]
    fitted.append(genmetric.GenerativeMetric(base="pooled").partial_fit(X, Y))
    files = []
    for model in fitted:
        buffer = io.BytesIO()
        genmetric.save(model, buffer, metadata={"name": "iris"})
        files.append(buffer.getvalue())
    return files


def members(content):
    """Return the members of an archive by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(content, compression=zipfile.ZIP_STORED):
    """Return an archive of members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def nodes_of(value):
    """Yield the nodes of a description and its containers, each once: changes can make circles."""
    waiting, seen = [value], set()
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict | list) and id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += list(found.values() if isinstance(found, dict) else found)


def raw_bytes(rng, content):
    """Change, remove or repeat bytes of the archive."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 2, 20])):
        i = rng.randrange(len(data))
        what = rng.randrange(4)
        if what == 0:
            data[i] = rng.choice([0, 1, 127, 255, rng.randrange(256)])
        elif what == 1:
            del data[i : i + rng.choice([1, 10, 1000])]
        elif what == 2:
            data[i:i] = data[i : i + rng.choice([1, 10, 1000])]
        else:
            data[i : i + 4] = rng.choice([b"\xff" * 4, b"\x00" * 4, b"\xff\xff\xff\x7f"])
        data = data or bytearray(b"x")
    return bytes(data)


def array_bytes(rng, content):
    """Change arrays: their headers, with huge shapes and other types, or their values."""
    files = members(content)
    name = rng.choice([n for n in files if n.endswith(".npy")])
    data = files[name]
    what = rng.randrange(4)
    if what == 0:
        shape = rng.choice(
            [b"(1000000000000,)", b"(0, 100000000000)", b"(3, -1)", b"()", b"(2**9,)"]
        )
        start, end = data.index(b"'shape': ") + 9, data.index(b")", data.index(b"'shape'")) + 1
        data = data[:start] + shape + data[end:]
    elif what == 1:
        kind = rng.choice(
            [b"'|O'", b"'<U0'", b"'|V0'", b"'<U9999999'", b"'<i8'", b"'<c16'", b"'>f8'"]
        )
        start = data.index(b"'descr': ") + 9
        data = data[:start] + kind + data[data.index(b",", start) :]
    elif what == 2:
        buffer = io.BytesIO()
        value = rng.choice([np.nan, np.inf, 1e308, -1.0, 0.0])
        np.save(buffer, np.full(rng.choice([(), (4,), (4, 4), (3, 4), (150, 4), (0, 4)]), value))
        data = buffer.getvalue()
    else:
        data = raw_bytes(rng, data)
    return packed({**files, name: data})


def description(rng, content):
    """Change the description of the objects: values, types, references, attributes."""
    files = members(content)
    schema = json.loads(files["schema.json"])
    for _ in range(rng.choice([1, 1, 3])):
        found = list(nodes_of(schema))
        node = rng.choice([n for n in found if isinstance(n, dict)])
        other = rng.choice(found)
        value = rng.choice(VALUES)
        what = rng.randrange(9)
        if what == 0 and node:
            node[rng.choice(list(node))] = value
        elif what == 1:
            node["content"] = json.dumps(value)
        elif what == 2:
            node["__loader__"] = rng.choice(LOADERS)
        elif what == 3:
            node["__module__"], node["__class__"] = rng.choice(TYPES)
        elif what == 4 and isinstance(other, dict):
            node["__id__"] = other.get("__id__", 1)
        elif what == 5 and node:
            node[rng.choice(list(node))] = other
        elif what == 6 and isinstance(other, list):
            # Most lists contain others: larger factors would fill the memory before the load.
            other *= rng.choice([0, 2, 100] if any(other) else [100_000])
        elif what == 7 and isinstance(node.get("content"), dict):
            inner = node["content"]
            added = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
            inner[rng.choice(ATTRIBUTES)] = {**added, "content": json.dumps(value)}
            types = node.get("key_types")
            if isinstance(types, dict) and isinstance(types.get("content"), list):
                types["content"].append({**added, "__loader__": "TypeNode"})
        elif what == 8 and isinstance(other, dict) and "file" in other:
            other["file"] = rng.choice([*files, "../../etc/passwd", "absent"])
    try:
        text = json.dumps(schema)
    except (ValueError, RecursionError):  # it contains itself
        text = files["schema.json"].decode().replace("}", rng.choice(["", "}}", "]"]), 3)
    return packed({**files, "schema.json": text})


def metadata(rng, content):
    """Change the metadata, the names of members, and the compression."""
    files = members(content)
    what = rng.randrange(4)
    if what == 0:
        files["genmetric.json"] = json.dumps(
            rng.choice([*VALUES, {"metadata": rng.choice(VALUES)}])
        )
    elif what == 1:
        files.pop(rng.choice(list(files)))
    elif what == 2:
        files["schema.json"] = b"[" * rng.choice([10, 100_000, 10_000_000])
    else:
        return packed({**files, "zeros": bytes(10**6)}, zipfile.ZIP_DEFLATED)
    return packed(files)


KINDS = [raw_bytes, array_bytes, description, description, metadata]


def attempt(content, folder):
    """Load a file and use the model; return the outcome, capitalised if it is a defect."""
    path = Path(folder) / "model"
    path.write_bytes(content)
    outcome, before = "refused", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        model = genmetric.load(path)
    except ModelFileError as error:
        if "\n" in str(error):
            outcome = "Error of several lines"
    except BaseException as error:
        traceback.print_exc()
        outcome = f"Raised {type(error).__name__} on load"
    else:
        outcome = "loaded"
        try:
            if SCRIPT.encode() in content and SCRIPT in model._repr_html_():
                outcome = "Script in the HTML"
            getattr(model, "predict", getattr(model, "transform", None))(X[:5])
        except Exception as error:
            if outcome == "loaded":
                outcome = f"loaded, {type(error).__name__} when used"
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > MOST_KB:
        outcome = f"Took much memory, {outcome}"
    if os.listdir(folder) != ["model"]:  # noqa: PTH208
        outcome = "Created a file"
    return outcome


def run_round(files, seed, folder, pipe):
    """Make attempts in a process of limited memory; write a line before and after each."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    os.chdir(folder)
    warnings.simplefilter("ignore")
    for i in range(ROUND):
        rng = random.Random(f"{seed}-{i}")
        kind = rng.choice(KINDS)
        content = kind(rng, rng.choice(files))
        print(kind.__name__, i, sep="\t", end="\t", file=pipe, flush=True)
        signal.alarm(PATIENCE)
        print(attempt(content, folder), file=pipe, flush=True)
        signal.alarm(0)


def main(seconds, seed):
    """Run rounds until the time is over; print the outcomes; return the number of defects."""
    files, counts = models(), collections.Counter()
    end = time.monotonic() + seconds
    faulthandler.enable()
    number = 0
    while time.monotonic() < end:
        number += 1
        reader, writer = os.pipe()
        with tempfile.TemporaryDirectory() as folder:
            child = os.fork()
            if not child:
                os.close(reader)
                try:
                    with os.fdopen(writer, "w") as pipe:
                        run_round(files, f"{seed}-{number}", folder, pipe)
                except MemoryError:
                    pass  # A change took it, before anything was loaded.
                finally:
                    os._exit(0)
            os.close(writer)
            with os.fdopen(reader) as pipe:
                lines = pipe.read().splitlines()
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for line in lines:
            kind, i, outcome = line.split("\t")
            outcome = outcome or f"Ended by signal {-status}"
            counts[kind, outcome] += 1
            if outcome[0].isupper():
                print(f"defect: {kind}, {outcome}, seed {seed}-{number}-{i}", flush=True)
    for (kind, outcome), n in sorted(counts.items()):
        print(f"{n:>7}  {kind:<12}  {outcome}")
    defects = sum(n for (_, outcome), n in counts.items() if outcome[0].isupper())
    print(f"{counts.total()} attempts, {defects} defects")
    return defects


if __name__ == "__main__":
    limit = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    sys.exit(main(limit, sys.argv[2] if len(sys.argv) > 2 else time.time_ns()) > 0)
