"""MN5: torchrun starts failed workers again only if told to, and what they go on from is the script's work."""

import logging

import pytest
from check_code import span
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main

RESTARTS = span("MN5", "attempts left")  # what the entry's Check looks for
AGENT = logging.getLogger("torch.distributed.elastic.agent.server.api")
WORKER = """\
step=0
[ "$1" = resume ] && [ -e saved ] && step=$(cat saved)
echo "begins at $step, restart $TORCHELASTIC_RESTART_COUNT" >> told
while [ $step -lt 4 ]; do
  step=$((step + 1)); echo $step > saved
  [ $step = 3 ] && [ ! -e failed ] && { touch failed; kill -9 $$; }
done
echo "ends at $step" >> told
"""


@pytest.fixture
def launched(tmp_path, monkeypatch, caplog):
    """launched(*options, resume): what the worker told, and what torchrun logged."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.sh").write_text(WORKER)

    def run(*options, resume=False):
        command = [
            "--standalone",
            "--nproc-per-node=1",
            *options,
            "--no-python",
            "bash",
            "train.sh",
        ]
        monkeypatch.setattr(AGENT, "handlers", [caplog.handler])  # it hands nothing on to pytest's
        with caplog.at_level(logging.INFO, AGENT.name):
            try:
                main([*command, "resume" if resume else "fresh"])
            except ChildFailedError:
                pass
        return (tmp_path / "told").read_text().splitlines(), caplog.text

    return run


def test_by_default_nothing_is_started_again(launched):
    told, log = launched(resume=True)
    assert told == ["begins at 0, restart 0"]
    assert RESTARTS not in log


def test_a_restart_begins_at_step_0_if_the_script_loads_nothing(launched):
    told, log = launched("--max-restarts=3")
    assert told == ["begins at 0, restart 0", "begins at 0, restart 1", "ends at 4"]
    assert f"3/3 {RESTARTS}" in log


def test_a_script_that_loads_the_newest_state_at_each_start_goes_on(launched):
    told, log = launched("--max-restarts=3", resume=True)
    assert RESTARTS in log
    assert told == ["begins at 0, restart 0", "begins at 3, restart 1", "ends at 4"]
