"""A drill over a fake provider and a fake ssh: each step agreed to, marks compared, no names kept."""

import json
import os
import shutil
from dataclasses import asdict

import pytest
from click.testing import CliRunner
from remote_gpu_trainer.boxes import box
from remote_gpu_trainer.cli.main import cli
from remote_gpu_trainer.platforms import provider
from remote_gpu_trainer.runs import drill, guard_files, home_copy, other_runs

from tests.engines import fake_provider as fake
from tests.engines.fake_run import fake_run
from tests.engines.fake_ssh import fake_ssh
from tests.runs.test_home_copy import released

ROW = {**fake.EC2, "InstanceId": "i-gpu", "PublicIpAddress": "gpu"}


@pytest.fixture
def account(tmp_path, monkeypatch):
    place = fake_ssh(tmp_path, monkeypatch)
    (place / "gpu").mkdir()
    monkeypatch.setenv("PATH", f"{place}/account/bin:{os.environ['PATH']}")
    monkeypatch.setattr(drill, "places", lambda name: ["~"])
    fake.install(place / "account", boxes=[ROW])
    return place / "account"


def run(agrees=lambda *step: True, id=""):
    said = []
    ask = drill.Ask(agrees, said.append, lambda seconds: None)
    return drill.drill(provider.of("aws"), box.Box("gpu", "gpu"), id, ask)


def test_a_drill_stops_starts_looks_and_ends_the_box(account):
    steps = []
    done = run(lambda *step: steps.append(step) or True)
    assert [name for name, _, _ in steps] == ["stop", "start", "end"]
    assert steps[0][1].startswith("aws ec2 stop-instances --region us-east-1 --instance-ids i-gpu")
    assert done.passed and "~" in done.survived["stop"] and done.notes == []
    assert json.loads((account / "state.json").read_text())["boxes"] == []
    assert all(name not in json.dumps(asdict(done)) for name in ("i-gpu", "gpu", "198.51"))


@pytest.mark.parametrize(
    ("others", "id"), [(["elsewhere"], "i-0"), (["gpu"], "i-0"), (["gpu"], "i-gpu")]
)
def test_a_box_that_ssh_does_not_reach_is_never_drilled(account, others, id):
    rows = [{**ROW, "InstanceId": f"i-{n}", "PublicIpAddress": x} for n, x in enumerate(others)]
    fake.change(account, boxes=[ROW, *rows])
    with pytest.raises(guard_files.Unfit, match="a drill ends the box that it marks"):
        run(id=id)
    assert not any("stop-" in str(x) or "terminate-" in str(x) for x in fake.calls(account))


@pytest.mark.parametrize("alive", [True, False])
def test_a_box_with_a_run_that_would_be_lost_is_never_drilled(account, alive):
    folder = fake_run(account.parent / "gpu", "toy", alive=alive, phase="running")
    if not alive:
        (folder / "attempt").write_text("1")
        (folder / ".done").write_text("{}")
    with pytest.raises(guard_files.Unfit, match="no box to throw away: toy"):
        run()
    assert not any("stop-" in str(x) or "terminate-" in str(x) for x in fake.calls(account))


def test_a_run_whose_copy_here_is_gone_since_would_be_lost_again(account):
    folder = fake_run(account.parent / "gpu", "toy", alive=False, phase="done")
    (folder / ".done").write_text("{}")
    copy = home_copy.describe_copy(released(account.parent / "res"))
    place = box.parse("gpu")
    other_runs.find_others(place, "~/runs/toy", copy)
    assert not other_runs.find_others(place, "~/none", None).owed
    shutil.rmtree(account.parent / "res")
    with pytest.raises(
        guard_files.Unfit, match=r"to throw away: toy \(finished; its copy in .* is"
    ):
        run()
    assert not any("stop-" in str(x) or "terminate-" in str(x) for x in fake.calls(account))


def test_a_slow_provider_is_waited_for(account):
    fake.change(account, slow=3)
    assert run().passed


@pytest.mark.parametrize("stop_at", ["stop", "start", "end"])
def test_what_is_not_agreed_to_is_not_done_and_nothing_passes(account, stop_at):
    done = run(lambda name, *rest: name != stop_at)
    assert not done.passed and f"{stop_at}: not agreed to" in done.notes


@pytest.mark.parametrize("how", ["no answer", "Ctrl-C"])
@pytest.mark.parametrize("at", ["stop", "end"])
def test_a_drill_that_breaks_off_keeps_a_receipt_that_did_not_pass(account, how, at):
    def agrees(name, *rest):
        fake.change(account, slow=3 if name == at else 0, deaf=name == at == "end")
        return True

    def wait(seconds):
        if how == "Ctrl-C":
            raise KeyboardInterrupt
        fake.change(account, fail={"describe-instances": [255, "i-gpu: AuthFailure"]})

    ask = drill.Ask(agrees, lambda line: None, wait)
    with pytest.raises((provider.NoAnswer, KeyboardInterrupt)):
        drill.drill(provider.of("aws"), box.Box("gpu", "gpu"), "", ask)
    [receipt] = guard_files.read().receipts
    assert not receipt.passed and receipt.notes == [f"{at}: it broke off"]


def test_a_drill_in_which_nothing_was_done_leaves_no_receipt(account):
    done = run(lambda name, *rest: name != "stop")
    assert done.notes == ["stop: not agreed to"] and guard_files.read().receipts == []


def test_a_stop_that_does_nothing_and_a_disk_that_is_lost_do_not_pass(account, monkeypatch):
    fake.change(account, deaf=True)
    monkeypatch.setattr(drill, "MOST", 30.0)
    done = run()
    assert not done.passed and "stop: the list doesn't show it" in done.notes[0]
    fake.change(account, deaf=False)

    def lose(name, *rest):
        if name == "start":
            shutil.rmtree(account.parent / "gpu")
            (account.parent / "gpu").mkdir()
        return True

    done = run(lose)
    assert not done.passed and "lost at the stop against the page: ~" in done.notes


def test_a_pod_passes_only_where_a_folder_that_a_stop_keeps_was_marked(account, monkeypatch):
    monkeypatch.setenv("RUNPOD_API_KEY", "key")
    pod = {**fake.RUNPOD, "ssh": {"direct": {"host": "gpu", "port": 22}}}
    for path, passes in ((str(account.parent / "gpu"), True), ("/nowhere", False)):
        mounts = {"persistent": {"size": 20, "path": path}}
        fake.change(account, key="key", boxes=[{**pod, "mounts": mounts}])
        ask = drill.Ask(lambda *step: True, lambda line: None, lambda seconds: None)
        done = drill.drill(provider.of("runpod"), box.Box("gpu", "gpu"), "", ask)
        assert done.passed is passes


def test_where_nothing_stops_a_box_the_drill_says_that_it_tried_the_end_alone(account, monkeypatch):
    monkeypatch.setenv("LAMBDA_API_KEY", "key")
    fake.change(account, key="key", boxes=[{**fake.LAMBDA, "ip": "gpu"}])
    words = ["drill", "lambda", "gpu", "--yes"]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert done.return_value == 0, done.output
    assert done.output.splitlines()[-1] == (
        "passed for the end alone: lambda has no stop, so none was tried, and rgt guard stops no "
        "box there"
    )
    assert "after a stop" not in done.output and "stopped" not in done.output
    assert "for the page: under commands and stop_billing: drilled: 20" in done.output


def test_the_command_shows_the_steps_and_keeps_a_receipt_by_which_a_guard_may_act(account):
    def call(*words):
        return CliRunner().invoke(cli, ["drill", "aws", *words], standalone_mode=False)

    done = call()
    assert done.return_value == 0 and "stop: aws ec2 stop-instances" in done.output
    assert call("gpu").return_value == 1 and not any("stop-" in str(x) for x in fake.calls(account))
    done = call("gpu", "--id", "i-gpu", "--yes")
    assert done.return_value == 0, done.output
    assert "for the page: under commands, stop_billing and survives: drilled: 20" in done.output
    [receipt] = guard_files.read().receipts
    assert receipt.passed and receipt.kind == "ebs" and receipt.notes == []
