"""What a provider bills: read from its own answers, explained by the runs from here."""

import json
import time

import pytest
from click.testing import CliRunner
from remote_gpu_trainer.cli.main import cli
from remote_gpu_trainer.platforms import provider
from remote_gpu_trainer.platforms.provider import NoAnswer
from remote_gpu_trainer.runs import known_jobs, ledger, sweep

from tests.engines import fake_provider as fake

KEY = "rp_secret_7f3a9c"


@pytest.fixture
def account(tmp_path, monkeypatch):
    folder = tmp_path / "account"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
    for name in ("RUNPOD_API_KEY", "LAMBDA_API_KEY"):
        monkeypatch.setenv(name, KEY)
    fake.install(folder, key=KEY)
    return folder


def swept(name):
    return sweep.sweep(provider.of(name))


@pytest.mark.parametrize(
    ("name", "box", "disk", "lines"),
    [
        ("runpod", fake.RUNPOD, fake.VOLUME, ["7h9k2m4n6p (pytorch-training): RUNNING since ", "0.44 USD an hour", "disk 2q9m7x4c (training-dataset): no box has it, 100 GB, about 7.00 USD a month"]),
        ("vastai", fake.VAST, None, ["312 (toy): running since ", "0.31 USD an hour"]),
        ("lambda", fake.LAMBDA, fake.FILESYSTEM, ["(My Instance): active, 0.75 USD an hour", "(my-filesystem): no box has it, 50 GB, about 10.00 USD a month"]),
        ("aws", fake.EC2, fake.EBS, ["i-0abc (node) in us-east-1: running since ", "disk vol-1 in us-east-1: no box has it, 200 GB, about 16.00 USD a month"]),
    ],
)  # fmt: skip
def test_a_box_and_a_disk_that_nothing_explains_are_listed(account, name, box, disk, lines):
    fake.change(account, boxes=[box], disks=[disk] if disk else [])
    found = swept(name)
    assert found.code == 1 and found.why == ""
    for line in lines:
        assert line in sweep.as_text(found)


def test_a_stopped_box_is_listed_with_what_its_disk_costs(account):
    fake.change(account, boxes=[{**fake.RUNPOD, "status": "EXITED", "cost": 0.0}])
    assert "EXITED, its disk may be billed, 20 GB, about 4.00 USD a month" in sweep.as_text(
        swept("runpod")
    )
    fake.change(account, boxes=[{**fake.EC2, "State": {"Name": "stopped"}}],
                disks=[{**fake.EBS, "State": "in-use", "Attachments": [{"InstanceId": "i-0abc"}]}])  # fmt: skip
    found = swept("aws")
    assert "stopped, its disk may be billed, about 16.00 USD a month" in sweep.as_text(found)
    assert found.loose == []


def note_job(address, at):
    known = {"address": address, "folder": "~/runs/toy", "profile": "runpod", "given": {}, "at": at}
    place = ledger.place().parent / "jobs"
    place.mkdir(parents=True, exist_ok=True)
    (place / "one.json").write_text(json.dumps(known))


def test_a_box_with_a_run_from_here_is_explained_and_one_that_was_only_reached_is_not(account):
    fake.change(account, boxes=[fake.RUNPOD])
    ledger.opened("127.0.0.1:34446", "pod")
    assert swept("runpod").unexplained
    note_job("127.0.0.1:34446", time.time())
    assert swept("runpod").code == 0
    note_job("127.0.0.1:34447", time.time())  # another container of the same host
    assert swept("runpod").unexplained


def test_a_run_from_before_the_box_was_made_explains_nothing(account):
    fake.change(account, boxes=[fake.RUNPOD])
    ledger.opened("127.0.0.1:34446", "pod")
    note_job("127.0.0.1:34446", 1_700_000_000)
    assert known_jobs.every() and swept("runpod").unexplained


@pytest.mark.parametrize(
    ("fail", "why"),
    [
        ({"v2/pods": [22, "curl: (22) The requested URL returned error: 401"]}, "error: 401"),
        ({"v2/pods": [0, f'{{"title": "Unauthorized {KEY}"}}']}, "no list pods"),
        ({"v2/pods": [0, f"<html>{KEY}"]}, "no JSON (<html>***)"),
        ({"v2/pods": [0, '{"pods": [{"id": "../x"}]}']}, "has no id"),
        ({"v2/pods": [6, f"curl: (6) Could not resolve host {KEY}"]}, "ended with 6"),
    ],
)
def test_an_answer_that_is_no_list_is_no_empty_account_and_shows_no_key(account, fail, why):
    fake.change(account, boxes=[fake.RUNPOD], fail=fail)
    found = swept("runpod")
    assert found.code == 2 and why in found.why and KEY not in found.why
    assert sweep.as_text(found).startswith("what it bills isn't known: runpod: ")


def test_a_box_that_has_ended_is_none_that_is_counted(account, monkeypatch):
    rows = [{**fake.EC2, "State": {"Name": state}} for state in ("terminated", "running")]
    fake.change(account, boxes=rows)
    assert sweep.as_text(swept("aws")).startswith("aws: 1 box, 1 that no run from here explains")
    monkeypatch.delenv("LAMBDA_API_KEY")
    assert sweep.as_text(swept("lambda")).startswith("not asked: lambda: LAMBDA_API_KEY isn't set")


def test_a_slow_provider_is_not_waited_for_and_a_key_stays_off_the_command_line(
    account, monkeypatch
):
    fake.change(account, boxes=[fake.RUNPOD])
    swept("runpod")
    assert KEY not in json.dumps(fake.calls(account))
    monkeypatch.setattr(provider, "LIMIT", 0.3)
    fake.change(account, delay=5)
    with pytest.raises(NoAnswer, match="gave no answer"):
        provider.of("vastai").boxes()


def test_the_command_asks_those_that_are_set_up_and_prints_no_token(account, monkeypatch):
    monkeypatch.delenv("LAMBDA_API_KEY")
    (account / "bin" / "aws").unlink()
    monkeypatch.setenv("PATH", f"{account}/bin:/nowhere")
    fake.change(account, boxes=[fake.VAST], key="another")
    done = CliRunner().invoke(cli, ["sweep", "vastai", "--json"], standalone_mode=False)
    assert done.return_value == 1 and fake.VAST["jupyter_token"] not in done.output
    assert json.loads(done.output)["providers"][0]["unexplained"][0]["id"] == "312"
    done = CliRunner().invoke(cli, ["sweep"], standalone_mode=False)
    assert done.return_value == 2 and "error: 401" in done.output and "lambda" not in done.output


def test_a_file_of_keys_that_others_can_read_is_refused(account, monkeypatch, tmp_path):
    monkeypatch.delenv("RUNPOD_API_KEY")
    file = tmp_path / "keys"
    file.write_text(f"# mine\nexport RUNPOD_API_KEY='{KEY}'\n")
    file.chmod(0o644)
    done = CliRunner().invoke(cli, ["sweep", "runpod", "--keys", str(file)])
    assert "chmod 600" in str(done.exception)
    file.chmod(0o600)
    done = CliRunner().invoke(cli, ["sweep", "runpod", "--keys", str(file)], standalone_mode=False)
    assert done.return_value == 0, done.output
