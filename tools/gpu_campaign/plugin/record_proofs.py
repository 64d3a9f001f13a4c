"""A plugin of pytest that writes a line of JSON for each test, so that a time limit keeps them."""

import json
import os


class Writer:
    """Writes what each test came to into the file that GPU_CAMPAIGN_PROOFS names."""

    def __init__(self, place):
        self.place = place

    def pytest_runtest_logreport(self, report):
        """Write a line when a test has run, or didn't get that far."""
        if report.when != "call" and report.outcome == "passed":
            return
        text = str(report.longrepr)[-1500:] if report.outcome == "failed" else ""
        if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            text = report.longrepr[2]
        row = {"test": report.nodeid, "outcome": report.outcome, "text": text}
        with open(self.place, "a", encoding="utf-8") as file:
            file.write(json.dumps(dict(row, seconds=round(report.duration, 2))) + "\n")


def pytest_configure(config):
    """Register the writer in the process that gathers all results, not in xdist's workers."""
    place = os.environ.get("GPU_CAMPAIGN_PROOFS")
    if place and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Writer(place))
