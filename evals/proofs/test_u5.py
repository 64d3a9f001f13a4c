"""U5: a guard before the shell sees the typed line, and neither the script that it starts nor the box."""

import json
import subprocess
import sys

import pytest
from check_code import span
from stub_box import Box

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


READS_THE_SCRIPT = """
import json, pathlib, sys
words = json.load(sys.stdin)["tool_input"]["command"].split()
text = " ".join(words + [pathlib.Path(w).read_text() for w in words if pathlib.Path(w).is_file()])
sys.exit(0 if "conda activate" in text else 2)
"""


@pytest.mark.parametrize(("guard", "codes"), [(GUARD, ["2", "0"]), (READS_THE_SCRIPT, ["0", "0"])])
def test_the_check_tells_a_guard_that_reads_the_typed_text_only(tmp_path, guard, codes):
    (tmp_path / "guard.py").write_text(guard)
    (tmp_path / "run.sh").write_text("conda activate exp\npython train.py\n")
    box, code = Box(tmp_path), span("U5", "guard.py")
    typed = code.replace("bash run.sh", "conda activate exp && bash run.sh")
    assert [box.said(code), box.said(typed)] == codes
