"""U5: a guard before the shell sees the typed line, and neither the script that it starts nor the box."""

import json
import subprocess
import sys

import pytest

GUARD = """
import json, sys
command = json.load(sys.stdin)["tool_input"]["command"]
if not any(word in command for word in ("conda activate", "/envs/exp/bin/python")):
    print("activate the environment first", file=sys.stderr)
    sys.exit(2)
"""


@pytest.fixture
def guarded(tmp_path):
    """guarded(command): the exit code of the hook, which gets what an agent's client hands it."""
    (tmp_path / "guard.py").write_text(GUARD)
    (tmp_path / "run.sh").write_text("conda activate exp\npython train.py\n")

    def run(command: str) -> int:
        call = json.dumps({"tool_name": "Bash", "tool_input": {"command": command}})
        done = subprocess.run([sys.executable, "guard.py"], input=call, text=True, cwd=tmp_path)
        return done.returncode

    return run


def test_a_script_that_activates_is_refused_and_the_mere_words_pass(guarded):
    assert guarded("bash run.sh") == 2
    assert guarded("conda activate exp && bash run.sh") == 0
    assert guarded("echo conda activate; bash other.sh") == 0


def test_the_environments_own_python_shows_in_the_line(guarded):
    assert guarded("ssh box '/root/miniconda3/envs/exp/bin/python train.py'") == 0
