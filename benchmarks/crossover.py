"""Sizes from which on the resolvent solver is faster than the dense one, for `solver="auto"`."""

from measure import Table, gaussian_classes, progress, seconds, short
from solvers import problem

from genmetric.geometry.sums import select_solver, sum_local_metrics


def crossover():
    """Measure dense against resolvent times, and which solver auto selects."""
    rows = (200, 1000, 4000, 16000)
    table = Table(
        "Dense time divided by resolvent time (+: auto selects the resolvent solver), one thread",
        ["classes", "D", *(f"N = {n}" for n in rows)],
    )
    worst = 1.0
    for n_classes in (2, 3, 10, 26):
        for D in (4, 8, 12, 16, 20, 30, 40):
            progress(f"crossover, {n_classes} classes, D = {D}")
            cells = []
            for n in rows:
                X, y = gaussian_classes(n_classes, D, max(n, 3 * D * n_classes))
                models, coordinates = problem(X, y)
                X = X[:n]
                times = {
                    solver: seconds(
                        lambda s=solver, m=models, c=coordinates, X=X: sum_local_metrics(
                            m, X, c, solver=s
                        ),
                        2,
                    )
                    for solver in ("dense", "resolvent")
                }
                ratio = times["dense"] / times["resolvent"]
                auto, _ = select_solver(models, n, D)
                worst = max(worst, times[auto] / times["dense"])
                cells.append(short(ratio) + (" +" if auto == "resolvent" else ""))
            table.add(n_classes, D, *cells)
    table.lines.append(f"\nWorst selection of auto compared with dense: {worst:.2f}x its time.")
    print(table.lines[-1])
    return table
