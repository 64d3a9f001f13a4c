"""What a provider announces becomes one "save now". How each provider says it is in test_preemption.py."""

from tests.runner.box import Box
from tests.runner.test_preemption import NEEDS, PAGES, service  # noqa: F401

pytest_plugins = ["tests.runner.box"]


def test_a_notice_saves_and_ends_the_run_as_preempted(box: Box, service):
    service.needs = NEEDS["aws"]
    box.make("--steps", 400, spec={"rendered": {"notice": "aws", "metadata": service.base}})
    box.start()
    box.at_step(3)
    box.until(lambda: service.seen)
    assert box.status()["phase"] == "running"
    path, text = PAGES["aws"]
    service.pages = {path: text}
    box.wait("preempted", timeout=20)
    marker = box.marker("preempted")
    told = ("preempted", "notice from aws", 85)
    assert (marker["class"], marker["reason"], marker["exit"]) == told
