"""Record the golden values: ``python tests/golden/record.py``.

The values in golden.npz and golden.json are those of commit 5bc4754, before the redesign. Record
again only what is meant to change, and say so in the commit::

    python tests/golden/record.py --force --only protocol/reproduce

``--sensitivity`` records nothing: it changes all samples by a relative 1e-15 and prints by how much
of its tolerance each quantity moves. A quantity near 1 needs a wider tolerance.
"""

import argparse
import json
import re
import warnings
from pathlib import Path

import cases
import numpy as np

HERE = Path(__file__).parent
ARRAYS, NUMBERS = HERE / "golden.npz", HERE / "golden.json"


def compute(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cases.CASES[name]()


def record(names, *, keep):
    """Write the quantities of these cases, and keep recorded ones of others."""
    arrays, numbers = {}, {}
    if keep:
        with np.load(ARRAYS) as file:
            arrays = dict(file)
        numbers = json.loads(NUMBERS.read_text())
    arrays = {name: value for name, value in arrays.items() if name in cases.CASES}
    numbers = {name: value for name, value in numbers.items() if name in cases.CASES}
    for name in names:
        flat, entries = [], {}
        for key, check in compute(name).items():
            value = check.value
            if check.rule != "equal" and np.ndim(value):
                entries[key] = {"shape": list(np.shape(value))}
                flat.append(np.asarray(value, float).ravel())
            else:
                entries[key] = value.item() if isinstance(value, np.generic) else value
        numbers[name] = entries
        arrays.pop(name, None)
        if flat:
            arrays[name] = np.concatenate(flat)
        print(name)
    np.savez_compressed(ARRAYS, **{name: arrays[name] for name in sorted(arrays)})
    lines = [f"{json.dumps(name)}: {json.dumps(numbers[name])}" for name in sorted(numbers)]
    NUMBERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def sensitivity(names, least):
    """Print the quantities that rounding moves by more than a part of their tolerance."""
    for name in names:
        cases.JITTER = (0.0, 0)
        before = compute(name)
        for seed in range(3):
            cases.JITTER = (1e-15, seed)
            for key, check in compute(name).items():
                old = before[key].value
                if check.rule == "equal":
                    excess = 0.0 if check.failure(old) is None else np.inf
                else:
                    excess = check.excess(np.asarray(check.value, float), np.asarray(old, float))
                if excess > least:
                    print(f"{name} {key}: {excess:.2g} of {check.rule} {check.tol:g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--force", action="store_true", help="overwrite recorded values")
    parser.add_argument("--only", default="", help="regular expression of the cases to record")
    parser.add_argument("--sensitivity", action="store_true", help="show the effect of rounding")
    parser.add_argument("--least", type=float, default=0.05, help="smallest effect to show")
    options = parser.parse_args()
    names = [name for name in cases.CASES if re.search(options.only, name)]
    if options.sensitivity:
        sensitivity(names, options.least)
    elif ARRAYS.exists() and not options.force:
        parser.error(f"{ARRAYS.name} exists; pass --force to overwrite it")
    else:
        record(names, keep=bool(options.only) and ARRAYS.exists())


if __name__ == "__main__":
    main()
