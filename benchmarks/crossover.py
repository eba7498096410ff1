"""Where the resolvent solver overtakes the dense one: what `solver="auto"` is made from."""

from measure import Table, gaussian_classes, progress, seconds, short
from solvers import problem

from genmetric.geometry._summation import choose_solver, sum_local_metrics


def crossover():
    """Time of the dense way over that of the resolvent, and what auto takes."""
    rows = (200, 1000, 4000, 16000)
    table = Table(
        "Dense time over resolvent time (+: auto takes the resolvent), one thread",
        ["classes", "D", *(f"N = {n}" for n in rows)],
    )
    worst = 1.0
    for n_classes in (2, 3, 10, 26):
        for D in (4, 8, 12, 16, 20, 30, 40):
            progress(f"crossover, {n_classes} classes, D = {D}")
            cells = []
            for n in rows:
                X, y = gaussian_classes(n_classes, D, max(n, 3 * D * n_classes))
                models, frame = problem(X, y)
                X = X[:n]
                times = {
                    solver: seconds(
                        lambda s=solver, m=models, f=frame, X=X: sum_local_metrics(
                            m, X, f, solver=s
                        ),
                        2,
                    )
                    for solver in ("dense", "resolvent")
                }
                ratio = times["dense"] / times["resolvent"]
                auto = choose_solver(n, D, n_classes)
                worst = max(worst, times[auto] / times["dense"])
                cells.append(short(ratio) + (" +" if auto == "resolvent" else ""))
            table.add(n_classes, D, *cells)
    table.lines.append(f"\nThe slowest choice of auto against dense: {worst:.2f}x its time.")
    print(table.lines[-1])
    return table
