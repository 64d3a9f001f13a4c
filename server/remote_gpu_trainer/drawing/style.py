"""The style that the pages of the tools share, in which `charts` is drawn."""

from __future__ import annotations

import os


def data_text(name: str) -> str:
    """Return a text of data/. In one file of a program, the text itself stands in its place."""
    path = os.path.join(os.path.dirname(__file__), "data", name)
    with open(path, encoding="utf-8") as file:
        return file.read()


OF_PAGES = data_text("page.css")  # what the site has too
OF_CHARTS = data_text("charts.css")
STYLE = OF_PAGES + OF_CHARTS
