"""What a comparison says, as the texts of two tables, for a terminal and a page. Pure."""

from __future__ import annotations

from ..text.spans import shown_seconds
from .comparison import NOT_RECORDED, Comparison, Run

SIDE_BY_SIDE = 4  # runs that have a column each; more have a row each


def run_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of what the runs were given and what came out: a column a
    run for a few, a row a run for more."""
    rows = [row_of(run, comparison) for run in comparison.runs]
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    if len(rows) > SIDE_BY_SIDE:
        return names, [[row[name] for name in names] for row in rows]
    head, *names = names
    return ["", *(row[head] for row in rows)], [[n, *(row[n] for row in rows)] for n in names]


def row_of(run: Run, comparison: Comparison) -> dict[str, str]:
    """The texts of a run by their headings."""
    cost = "" if run.money is None else f"{run.money:.2f} {run.currency}".strip()
    if run.money is not None and run.money < 0.005:
        cost = f"{run.money:.2g} {run.currency}".strip()
    row = {"RUN": run.name, **{name: run.fact(name) for name in comparison.differing}}
    row["STATE"] = run.state
    if comparison.metric:
        row[comparison.metric] = _format_number(run.metric) or NOT_RECORDED
    if comparison.metric != "loss":
        row["loss"] = _format_number(run.loss)
    if comparison.metric != "val_loss":
        row["val_loss"] = _format_number(run.val_loss)
    return {
        **row,
        "step": "" if run.step is None else str(run.step),
        "steps a second": _format_number(run.rate) or NOT_RECORDED,
        "time": NOT_RECORDED if run.hours is None else shown_seconds(run.hours * 3600),
        "money": cost or NOT_RECORDED,
    }


def configuration_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """The headings and rows of the table of configurations, each beside the first."""
    first, *others = comparison.configurations
    head = ["CONFIGURATION", "RUNS", f"MEAN {comparison.metric}", "SD"]
    head += ["PAIRED SEEDS", "MEAN DIFFERENCE", "SD OF DIFFERENCES"] if others else []
    rows = []
    for at, one in enumerate(comparison.configurations):
        row = [
            one.label,
            str(len(one.runs)),
            _format_number(one.mean),
            _format_number(one.deviation),
        ]
        if others and at:
            pairs = comparison.differences[at - 1]
            sign = "+" if (pairs.mean or 0) > 0 else ""
            row += [
                str(len(pairs.seeds)),
                f"{sign}{_format_number(pairs.mean)}" if pairs.seeds else "",
            ]
            row += [_format_number(pairs.deviation) or ("not known" if pairs.seeds else "")]
        elif others:
            row += ["", "compared with", ""]
        rows.append([cell or "not known" if at == 3 else cell for at, cell in enumerate(row)])
    return head, rows


def _format_number(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.4g}"
