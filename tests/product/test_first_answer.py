"""From a machine that has the client and `uvx` and nothing of ours to the first right answer in that client: one command, and how long it takes."""

import json
import os
import time

import pytest

from tests.conftest import ROOT, engine
from tests.engines.artifacts import built, home, programs, project, run  # noqa: F401
from tests.engines.machine_speed import slower
from tests.engines.scripted_models import Messages, scripted
from tests.product.test_clients import CLAUDE, LOG
from tests.product.test_clients_installed import UV

pytestmark = pytest.mark.clients

[COMMAND] = [
    line
    for line in (ROOT / "docs/guides/coding-agents.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("uvx ") and " install " in line
]
SECONDS = 60  # the promise for a warm package cache


@pytest.fixture
def bare(home, built, tmp_path):
    """An empty home in which only the client and `uvx` are found. The package cache is the machine's own."""
    uvx, claude = engine("uvx", UV), engine("claude", CLAUDE)
    (tmp_path / "dist").symlink_to(built)
    uv = {
        key: value
        for key, value in os.environ.items()
        if key.startswith("UV_") or key in ("SSL_CERT_FILE", "SSL_CERT_DIR")
    }
    uv.setdefault("UV_SYSTEM_CERTS", "1")
    uv.setdefault("UV_CACHE_DIR", os.path.expanduser("~/.cache/uv"))
    path = os.pathsep.join(
        [os.path.dirname(claude), os.path.dirname(uvx), "/usr/local/bin", "/usr/bin", "/bin"]
    )
    env = {**home, **uv, "PATH": path}
    warm = run(
        ["bash", "-c", COMMAND.replace(" install ", " install --dry-run ")], env, tmp_path, 300
    )
    if "error sending request" in warm.stderr and not os.environ.get("REQUIRE_ENGINES"):
        pytest.skip("uvx reached no package index")
    assert warm.returncode == 0, warm.stderr[-2000:]
    assert not os.path.exists(env["HOME"] + "/.claude.json")
    return env


@pytest.mark.alone
def test_one_command_and_the_next_question_gets_the_right_entry(
    bare, project, tmp_path, record_property
):
    (project / "train.log").write_bytes(LOG.read_bytes())
    before = time.monotonic()
    done = run(["bash", "-c", COMMAND], bare, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    script = [("mcp__remote-gpu-trainer__lookup_symptom", {"log_path": str(project / "train.log")})]
    with scripted(Messages, script) as (address, seen):
        answered = run(
            ["claude", "-p", "my two gpu run stopped", "--allowedTools", script[0][0], "--output-format", "stream-json", "--verbose"],
            {**bare, "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "scripted-not-a-key", "ENABLE_TOOL_SEARCH": "false"}, project,
        )  # fmt: skip
    took = time.monotonic() - before
    assert "D8" in json.dumps(seen[-1]["messages"]) and "find_unused_parameters" in json.dumps(
        seen[-1]["messages"]
    ), answered.stdout[-2000:]
    record_property("seconds_to_the_first_answer", round(took, 1))
    print(f"{took:.1f} s")
    assert took < SECONDS * slower()
