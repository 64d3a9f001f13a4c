"""The page of a run: one HTML file that needs no network. It is filled by jinja2, as torch is."""

import math
import os
import re

from ..drawing.charts import Chart, Line, draw_charts, printable
from ..drawing.style import STYLE
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


TEMPLATE = template_text("page.html.j2").lstrip()


def cleaned(value):
    """A value as the page shows it: a text without what moves or hides other text."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return printable(value) if is_text else value


def chart_of(points, title, note):
    """The chart of (step, value) pairs; a value that isn't finite is null in them."""
    values = [math.inf if value is None or value != value else value for _, value in points]
    return Chart(title, [Line("", values, steps=[step for step, _ in points])], note=note)


def page(report):
    """The HTML of a report. Raises ImportError without jinja2."""
    import jinja2
    from markupsafe import Markup

    made = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    series = report.get("series") or {}
    norm = "before clipping" if series.get("before clipping") else "of matrices, by samples"
    charts = [
        chart_of(series.get(name) or [], title, norm if name == "gradient norm" else note)
        for name, title, note in PLOTS
    ]
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
    return made.from_string(TEMPLATE).render(
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
        charts=Markup(draw_charts(charts)),
        style=Markup(STYLE),
        modules=[
            {"name": name, "ms": f"{1000 * seconds:.3g}", "width": f"{100 * seconds / most:.1f}"}
            for name, seconds in modules
        ],
    )
