"""The page of a run: one HTML file that needs no network. It is filled by jinja2, as torch is."""

import math
import os
import re

from .facts import in_order
from .table import FOUND, NOT_LOOKED, OBSERVATIONS, SOUND, SUSPICIOUS

GREEN = {SOUND: "good", FOUND: "bad", SUSPICIOUS: "hint", "wrong": "bad", NOT_LOOKED: "dim"}
COLOURS = {"wrong": "bad", "hint": "hint", "note": "dim"}  # of a finding's level
HOME = "https://github.com/remote-gpu-trainer/remote-gpu-trainer/blob/main/"
PLACE = re.compile(r"(?:references|profiles)/[\w/.-]+\.md(?:#[\w-]*)?")
PLOTS = (
    ("loss", "Loss", ""),
    ("gradient norm", "Gradient norm", ""),
    ("update", "Update to weight", "the median matrix's change in a step, beside its size"),
    ("seconds", "Seconds a step", "from one optimizer step to the next"),
)


def template_text(name):
    """A template beside the parts. In the one file, the template itself stands in its place."""
    with open(os.path.join(os.path.dirname(__file__), "templates", name), encoding="utf-8") as told:
        return told.read()


PAGE = template_text("page.html.j2").lstrip()


def printable(value):
    """A value as the page shows it: a text without what moves or hides other text."""
    if isinstance(value, str) and not value.isprintable():
        return "".join(char if char.isprintable() else " " for char in value)
    return value


def curve(points):
    """Lines of an SVG 1000 wide and 100 high, each a text of `x,y` pairs, and (lowest, highest).

    None where no value is finite. A missing value ends a line.
    """
    told = [value for _, value in points if value is not None and math.isfinite(value)]
    if not told:
        return None
    low, high = min(told), max(told)
    first, span = points[0][0], max(points[-1][0] - points[0][0], 1)
    unit = max(abs(low), abs(high)) or 1  # a difference of two huge numbers isn't finite
    lines = [[]]
    for step, value in points:
        if value is None or not math.isfinite(value):
            lines.append([])
            continue
        y = 50  # a difference that the numbers beside the plot don't show is none
        if f"{high:.4g}" != f"{low:.4g}":
            y = 95 - 90 * (value / unit - low / unit) / (high / unit - low / unit)
        lines[-1].append(f"{1000 * (step - first) / span:.1f},{y:.1f}")
    lines = [line if len(line) > 1 else line * 2 for line in lines if line]
    return {"lines": [" ".join(line) for line in lines], "low": f"{low:.4g}", "high": f"{high:.4g}"}


def page(report):
    """The HTML of a report. Raises ImportError without jinja2."""
    import jinja2

    made = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    series = report.get("series") or {}
    plots = []
    for name, title, note in PLOTS:
        points = series.get(name) or []
        if name == "gradient norm":
            note = "before clipping" if series.get("before clipping") else "of matrices, by samples"
        if drawn := curve(points):
            plots.append(
                {"title": title, "note": note, "from": points[0][0], "to": points[-1][0], **drawn}
            )
    modules = series.get("modules") or []
    most = max([seconds for _, seconds in modules] or [0]) or 1
    looked = []
    for name in OBSERVATIONS:
        state = report["observations"].get(name) or {"state": NOT_LOOKED}
        mine = [one for one in report["findings"] if one["kind"] in OBSERVATIONS[name]]
        colour = GREEN.get(state["state"], "dim")
        if mine:
            colour = min((one["level"] for one in mine), key=list(COLOURS).index)
            colour = COLOURS[colour]
        told = state.get("why") or state["state"]
        if state.get("partly"):
            told = f"{told}, not looked at: {state['partly']}"
        looked.append(
            {
                "name": name,
                "colour": colour,
                "state": told,
                "findings": mine,
                "for": ", ".join(OBSERVATIONS[name]),
            }
        )
    return made.from_string(PAGE).render(
        report=report,
        colour=GREEN.get(report["verdict"], "dim"),
        colours=COLOURS,
        links={
            one["id"]: HOME + one["page"]
            for one in report["findings"]
            if isinstance(one.get("page"), str) and PLACE.fullmatch(one["page"])
        },
        facts=in_order(report.get("facts") or []),
        looked=looked,
        plots=plots,
        modules=[
            {"name": name, "ms": f"{1000 * seconds:.3g}", "width": f"{100 * seconds / most:.1f}"}
            for name, seconds in modules
        ],
    )
