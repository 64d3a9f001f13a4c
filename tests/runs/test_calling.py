"""A verb of a run that takes minutes hands on what it says while it says it."""

from __future__ import annotations

import pytest
from remote_gpu_trainer.boxes.ssh import parse
from remote_gpu_trainer.runs import calling

pytestmark = pytest.mark.box


def test_lines_come_as_they_are_said_and_the_code_is_the_script_s(tmp_path):
    script = tmp_path / "toy/run.sh"
    script.parent.mkdir()
    (tmp_path / "go").touch()
    script.write_text(
        f"echo first; while [ -e {tmp_path}/go ]; do sleep 0.05; done; echo rehearsing: x >&2\n"
        "echo $1; exit 3\n"
    )
    said = []

    def say(line: str) -> None:
        said.append(line)
        (tmp_path / "go").unlink(missing_ok=True)  # it ends only once the first line came

    code = calling.follow(parse("local"), str(script.parent), "rehearse", say=say)
    assert (said, code) == (["first", "rehearsing: x", "rehearse"], 3)


def test_a_run_that_is_not_there_is_told(tmp_path):
    with pytest.raises(calling.NotCalled, match="gone"):
        calling.follow(parse("local"), str(tmp_path / "gone"), "rehearse", say=print)
