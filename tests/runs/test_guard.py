"""Rounds of a guard over a fake ssh and a fake provider: what it stops, what it leaves, what it says."""

import json
import os
import re
import shutil
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner
from remote_gpu_trainer.boxes import box as boxes
from remote_gpu_trainer.cli.main import cli
from remote_gpu_trainer.platforms import provider
from remote_gpu_trainer.runs import (
    guard,
    guard_files,
    guard_timer,
    home_copy,
    ledger,
    other_runs,
    this_machine,
)
from remote_gpu_trainer.runs.sent_job import end_seconds
from remote_gpu_trainer.text.locking import lock

from tests.engines import fake_provider as fake
from tests.engines.fake_run import fake_run, put_job
from tests.engines.fake_ssh import fake_ssh
from tests.runs.test_home_copy import LOST, released

HOUR = 3600.0


def at(host):
    """The address of a host: the fake ssh knows no settings of those that refuse."""
    return host if host.startswith("gone") else f"{host}:22"


class World:
    """A box of AWS whose run ended and is safe, past its deadline, confirmed and drilled."""

    def __init__(self, place):
        self.place, self.account = place, place / "account"
        self.now = float(int(time.time()))
        self.made = self.now - 10 * HOUR
        fake.install(self.account, boxes=[self.row("gpu")])
        self.box("gpu")

    def row(self, host, **change):
        made = datetime.fromtimestamp(self.made, timezone.utc).isoformat()
        return {**fake.EC2, "InstanceId": f"i-{host}", "PublicIpAddress": host, "LaunchTime": made,
                **change}  # fmt: skip

    def box(self, host):
        ledger.opened(at(host), host, now=self.made + 60)
        self.job(host, "toy", self.now - 8 * HOUR, deadline="1h")
        folder = fake_run(self.place / host, "toy", alive=False, phase="done")
        put_job(folder, {"job": {"durable": {"to": "s3://b/x"}}, "rendered": {}})
        (folder / "own").mkdir()
        for name in (".done", "own/final-sync"):
            (folder / name).write_text("{}")
        (folder / "syncs").write_text("0")
        (folder / "attempt.json").write_text('{"attempt": 1}')

    def job(self, host, name, when, **fields):
        given = {"name": name, "command": ["true"], **fields}
        told = {"address": at(host), "folder": f"~/runs/{name}", "profile": "aws",
                "given": given, "at": when}  # fmt: skip
        jobs = ledger.place().parent / "jobs"
        jobs.mkdir(parents=True, exist_ok=True)
        (jobs / f"{host}-{name}.json").write_text(json.dumps(told))

    def drill(self, days=1.0, passed=True, kind=None):
        own = guard_files.read().confirmed["gpu:22"]
        asked = provider.of(own.provider)
        command = this_machine.hash_of(asked.commands.stop.command)
        guard_files.note_drill(guard_files.Receipt(
            own.provider, asked.account(), kind or own.kind, command, self.now - days * 86400,
            passed, {"stop": ["~"]},
        ))  # fmt: skip

    def confirm(self, host="gpu", wins="alarm"):
        asked = provider.of("aws")
        own, _ = guard.candidate(asked, host, at(host), self.made + 60, f"i-{host}", wins, self.now)
        guard_files.confirm(own)

    def awake(self):
        """Let the last round lie ten minutes back, with nothing odd in it."""
        before = guard_files.read().last or guard_files.Last(0.0, 0.0, guard._boot())
        before.at, before.up, before.hold_until = self.now - 600, time.monotonic() - 600, 0.0
        guard_files.note_round(before)

    def round(self, environment=None):
        return guard.work(environment or dict(os.environ), self.now, lambda line: None)

    @property
    def stops(self):
        return [line for line in fake.calls(self.account) if "stop-instances" in line]


@pytest.fixture
def world(tmp_path, monkeypatch):
    place = fake_ssh(tmp_path, monkeypatch)
    monkeypatch.setenv("PATH", f"{place}/account/bin:{os.environ['PATH']}")
    monkeypatch.setattr(boxes, "numbers", lambda box, limit: [])
    monkeypatch.setattr(guard, "BELOW", "~")  # a box is a folder here
    made = World(place)
    made.confirm()
    made.drill()
    made.awake()
    return made


def test_a_box_past_its_end_is_stopped_once_and_the_step_is_written_first(world):
    told = world.round()
    assert [line[-3] for line in world.stops] == ["i-gpu"], told
    assert any("was asked to stop" in line for line in told.lines)
    steps = [json.loads(x)["step"] for x in guard_files.place("journal.jsonl").open()]
    assert steps == ["confirmed", "stop", "stop asked"]
    fake_ssh_dead(world)
    world.awake()
    told = world.round()
    assert len(world.stops) == 1 and told.lines == ["gpu is stopped, and its disk may be billed"]


def test_an_older_confirmation_that_is_put_back_stops_nothing(world):
    file = guard_files.place("confirmed.json")
    older = file.read_bytes()
    world.confirm()
    file.write_bytes(older.replace(b'"alarm"', b'"stop"'))
    told = world.round()
    assert not world.stops
    assert "its files were copied or restored since" in told.blocked["gpu"]
    world.confirm()
    world.round()
    assert world.stops


def copy_state(way, tmp_path):
    """Let the state folder be a copy: on another machine, or one that a backup put back."""
    state = ledger.place().parent
    if way == "another folder":
        shutil.copytree(state, tmp_path / "copy" / state.name)
        return str(tmp_path / "copy")
    if way == "back in its place":
        shutil.copytree(state, tmp_path / "backup")
        shutil.rmtree(state)
        shutil.copytree(tmp_path / "backup", state)
    else:  # over the files that are there
        for file in [file for file in state.rglob("*") if file.is_file()]:
            data, times = file.read_bytes(), file.stat()
            file.write_bytes(data)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    return str(state.parent)


@pytest.mark.parametrize(
    "way", ["another machine", "another folder", "back in its place", "over its files", "older"]
)
def test_a_copied_state_warns_and_stops_nothing_until_it_is_confirmed_here(
    world, way, tmp_path, monkeypatch
):
    if way == "another machine":  # that shares its home with this one
        monkeypatch.setattr(this_machine, "_machine", lambda: "another")
    elif way == "older":
        file = guard_files.place("confirmed.json")
        told = json.loads(file.read_text())
        del told["gpu:22"]["here"]
        file.write_text(json.dumps(told))
    else:
        monkeypatch.setenv("XDG_STATE_HOME", copy_state(way, tmp_path))
    told = world.round()
    assert not world.stops and told.code == 1
    [line] = told.lines
    assert "gpu is 7.0 h past its end, and may still be billed" in line
    command = "rgt guard confirm gpu --provider aws"
    assert "on another machine, or its files were copied" in line and line.endswith(command)
    monkeypatch.setattr(guard_timer, "installed", lambda: ["cron"])
    shows = run("guard", "status").output
    assert "confirmed here: none" in shows and f"not confirmed here: gpu; {command}" in shows
    assert run(*command.split()[1:], "--yes").return_value == 0
    world.awake()
    if way != "older":  # the drill's receipt was copied, too
        assert "drilled" in world.round().blocked["gpu"] and not world.stops
        world.drill(days=0.1)
        world.awake()
    world.round()
    assert len(world.stops) == 1


def test_a_confirmation_says_whether_the_stop_was_ever_tried(world):
    words = ["guard", "confirm", "gpu", "--provider", "aws", "--yes"]
    said = run(*words).output
    assert "destroys all else (as rgt drill showed at 20" in said and "never tried" not in said
    assert "must have passed" not in said
    world.drill(days=0.1, passed=False)
    said = run(*words).output
    assert "destroys all else (the newest rgt drill didn't pass)" in said
    shutil.rmtree(guard_files.place("drills"))
    said = run(*words).output
    assert "destroys all else (never tried on a real account)" in said
    assert "rgt drill aws BOX must have passed for this kind of box" in said


def test_a_confirmed_box_that_is_gone_is_none_that_the_status_names(world):
    world.round()
    assert "doesn't stop" not in run("guard", "status").output
    ledger.gone("gpu:22", "gpu", "the user says so")
    assert "confirmed here: none" in run("guard", "status").output
    guard_files.place("paused").touch()
    ledger.opened("gpu:22", "gpu", now=world.made + 60)
    world.awake()
    world.round()
    said = run("guard", "status").output
    assert "doesn't stop gpu: the guard is paused\n" in said


def test_what_is_confirmed_for_one_box_leaves_another_as_it_is(world):
    fake.change(world.account, boxes=[world.row("gpu"), world.row("gpu2")])
    world.box("gpu2")
    world.confirm("gpu2")
    world.round()
    assert [line[-3] for line in world.stops] == ["i-gpu"]


@pytest.mark.parametrize("wrong", ["others can read it", "missing", "no name=value"])
def test_a_bad_file_of_keys_keeps_no_bill_untold_and_stops_nothing(world, wrong, tmp_path):
    world.box("gpu3")
    file = tmp_path / "keys"
    if wrong != "missing":
        file.write_text("AWS_PROFILE=x\n" if wrong.startswith("others") else "AWS_PROFILE\n")
        file.chmod(0o644 if wrong.startswith("others") else 0o600)
    done = run("guard", "--once", "--keys", str(file), "--notify", f"tee -a {tmp_path}/told")
    assert done.return_value == 2 and not world.stops
    sent = (tmp_path / "told").read_text()
    for said in (done.output, sent):
        assert f"no provider could be asked: {file}" in said
        assert "gpu is 7.0 h past its end, and may still be billed" in said
        assert f"the guard doesn't stop it: {file}" in said and "drill" not in said
        assert "gpu3 is 7.0 h past its end, and may still be billed" in said


def test_a_fault_of_ours_with_one_box_keeps_no_other_bill_untold(world, monkeypatch):
    world.box("gpu2")
    look, see = guard._look, guard._Round._see

    def fails(self, seen, *rest):
        if seen.place.name == "gpu":
            raise TypeError("unsupported operand")
        return see(self, seen, *rest)

    monkeypatch.setattr(guard._Round, "_see", fails)
    told = world.round()
    assert told.code == 2 and not world.stops
    assert any("gpu couldn't be judged (TypeError), and may be billed" in x for x in told.lines)
    assert any("gpu2 is 7.0 h past its end" in x for x in told.lines)
    monkeypatch.setattr(guard._Round, "_see", see)
    monkeypatch.setattr(
        guard, "_look", lambda place: look(place) if place.name == "gpu2" else [][0]
    )
    world.awake()
    told = world.round()
    assert any("gpu is 7.0 h past its end" in x for x in told.lines), told


@pytest.mark.parametrize("is_first", [False, True])
def test_a_newer_drill_that_did_not_pass_ends_what_an_older_one_allowed(world, is_first):
    for file in guard_files.place("drills").iterdir() if is_first else ():
        file.unlink()
    world.drill(days=0.5, passed=False)
    if is_first:
        world.drill(days=2)
    told = world.round()
    assert not world.stops and "the newest drill" in told.blocked["gpu"]
    assert "rgt drill aws" in told.blocked["gpu"]
    world.drill(days=0.1)
    world.awake()
    world.round()
    assert len(world.stops) == 1


def test_a_receipt_that_was_copied_from_another_machine_is_no_drill(world):
    [file] = guard_files.place("drills").iterdir()
    told = json.loads(file.read_text())
    for here in ("", this_machine.hash_of("another")):
        file.write_text(json.dumps({**told, "here": here}))
        world.awake()
        told_now = world.round()
        why = "was made on another machine, or its receipt was copied or restored since; rgt drill"
        assert not world.stops and why in told_now.blocked["gpu"]
    world.drill(days=0.1)
    world.awake()
    world.round()
    assert len(world.stops) == 1


def test_a_machine_without_ssh_says_so_and_names_no_box_for_gone(world, monkeypatch, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("aws", "curl"):
        (bare / name).symlink_to(shutil.which(name))
    for name in ("python3", "bash", "sh", "env", "cat", "date"):
        (bare / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(bare))
    told = world.round()
    assert told.code == 2 and not world.stops
    assert told.lines[0].startswith(
        "no box could be looked at: ssh isn't installed on this machine"
    )
    assert any("gpu is 7.0 h past its end" in line and "ssh isn't installed" in line
               for line in told.lines)  # fmt: skip
    assert not any("another box" in line or "--forget" in line for line in told.lines)


def test_a_configuration_that_ssh_refuses_says_so(world, monkeypatch):
    ssh = Path(shutil.which("ssh"))
    ssh.write_text("#!/bin/sh\necho 'config line 1: Bad configuration option: x' >&2\nexit 255\n")
    told = world.round()
    assert told.code == 2 and "configuration (config line 1: Bad" in told.lines[0]
    assert not any("another box" in line or "--forget" in line for line in told.lines)


def test_the_end_of_a_run_is_known_though_all_jobs_are_lost(world):
    ledger.reserve("gpu:22", "~/runs/toy", world.now - 7 * HOUR)
    shutil.rmtree(ledger.jobs_place())
    why = "the job of toy isn't kept here any more; look at the box and end it"
    told = world.round()
    assert not world.stops and why in told.blocked["gpu"]
    assert any("gpu is 7.0 h past its end, and may still be billed" in x for x in told.lines)
    fake_ssh_dead(world)
    world.awake()
    told = world.round()
    assert not world.stops
    assert any("gpu is 7.0 h past its end, and may still be billed" in x for x in told.lines)


@pytest.mark.parametrize(("reserved", "stops"), [(12.0, 0), (-9.0, 1)])
def test_of_the_job_and_what_was_reserved_the_later_end_counts(world, reserved, stops):
    """The run was resumed for longer, and an older file of its job put back."""
    ledger.reserve("gpu:22", "~/runs/toy", world.now + reserved * HOUR)
    told = world.round()
    assert len(world.stops) == stops
    assert any("past its end" in line for line in told.lines) is bool(stops)


def fake_ssh_dead(world):
    """Let the box be reached no more."""
    ssh = Path(shutil.which("ssh"))
    dead = "gpu) [[ ${config-} ]] || { echo 'Connection refused' >&2; exit 255; } ;;\n  gone*)"
    ssh.write_text(ssh.read_text().replace("gone*)", dead))


def test_a_newer_drill_of_another_kind_of_box_changes_nothing(world):
    world.drill(days=0.5, passed=False, kind="instance-store")
    world.round()
    assert len(world.stops) == 1


@pytest.mark.parametrize(
    ("minutes", "unproven", "stops"), [(0.5, 60, 0), (65, 60, 0), (80, 60, 1), (80, 120, 0)]
)
def test_a_run_that_was_started_elsewhere_has_the_time_that_its_own_end_may_take(
    world, minutes, unproven, stops
):
    folder = fake_run(world.place / "gpu", "theirs", deadline=world.now - 60 * minutes)
    at_end = {"unproven_minutes": unproven}
    put_job(folder, {"job": {"at_end": at_end, "durable": {"to": "s3://b/x"}}, "rendered": {}})
    told = world.round()
    assert len(world.stops) == stops, told
    if not stops:
        assert "theirs lives there" in told.blocked["gpu"]
        assert "more to save, copy and end the box itself" in told.blocked["gpu"]


def test_a_run_that_was_started_elsewhere_and_names_no_job_has_an_hour_and_more(world):
    fake_run(world.place / "gpu", "theirs", deadline=world.now - 60 * 65)
    told = world.round()
    assert not world.stops and "theirs lives there" in told.blocked["gpu"]


def typed(text):
    """Return the commands that a text names, as a user would type them."""
    return re.findall(r"\brgt [^,;]+?(?=,| and |;|$)", text)


@pytest.mark.parametrize("id", ["i-gpu", "i-new"])
def test_a_box_that_was_started_anew_at_its_address_is_confirmed_by_what_the_guard_names(
    world, id, monkeypatch
):
    later = datetime.fromtimestamp(world.now - HOUR, timezone.utc).isoformat()
    fake.change(world.account, boxes=[world.row("gpu", InstanceId=id, LaunchTime=later)])
    told = world.round()
    refused = run("guard", "confirm", "gpu", "--provider", "aws", "--yes")
    assert "was made after gpu was first reached" in str(refused.exception)
    wanted = ["rgt release gpu --forget", "rgt status gpu", "rgt guard confirm gpu --provider aws"]
    for text in (told.blocked["gpu"], str(refused.exception)):
        assert typed(text) == wanted, text
    for line in wanted[:2]:
        run(*line.split()[1:])
    done = run(*wanted[2].split()[1:], "--yes")
    assert done.return_value == 0 and guard_files.read().confirmed["gpu:22"].id == id


def test_the_box_that_the_list_of_boxes_lost_can_be_forgotten_as_the_guard_says(world):
    shutil.rmtree(ledger.place().parent / "jobs")
    ledger.place().unlink()
    told = world.round()
    assert typed(told.lines[0]) == ["rgt release gpu:22 --forget"]
    assert run("release", "gpu:22", "--forget").return_value == 0
    world.awake()
    assert world.round().lines == []


def test_the_first_round_and_one_after_a_sleep_stop_nothing_and_the_next_does(world):
    guard_files.place("last.json").unlink()
    assert "first round" in world.round().blocked["gpu"]
    assert "looks again in" in world.round().blocked["gpu"]
    world.now += 600
    before = guard_files.read().last
    before.up -= 600
    guard_files.note_round(before)
    fake.change(world.account, clock=600)
    told = world.round()
    assert len(world.stops) == 1, told
    world.awake()
    world.now += 3 * HOUR
    assert guard.work({}, world.now, lambda line: None) and len(world.stops) == 1


@pytest.mark.parametrize("change", [{"up": 3 * HOUR}, {"boot": "another"}, {"at": 2 * HOUR}])
def test_a_clock_that_jumped_or_a_machine_that_slept_stops_nothing(world, change):
    before = guard_files.read().last
    for name, value in change.items():
        setattr(before, name, value if name == "boot" else getattr(before, name) - value)
    guard_files.note_round(before)
    told = world.round()
    assert not world.stops and "guard awake" in told.blocked["gpu"]
    assert any("past its end" in line for line in told.lines)


def test_a_run_that_lives_with_a_later_end_keeps_its_box(world):
    fake_run(world.place / "gpu", "other", deadline=world.now + HOUR)
    told = world.round()
    assert not world.stops and "other lives there" in told.blocked["gpu"]


def test_what_is_on_the_box_only_is_not_destroyed(world, monkeypatch):
    monkeypatch.setattr(provider, "kept", lambda act, box: ["/elsewhere"])
    fake_run(world.place / "gpu", "unsafe", alive=False, phase="done")
    (world.place / "gpu/runs/unsafe/.done").write_text("{}")
    told = world.round()
    assert not world.stops and told.blocked["gpu"].endswith("nowhere else: unsafe")


@pytest.fixture
def brought(world, monkeypatch):
    """The same, but its results are nowhere else than here, where a release has verified them."""
    monkeypatch.setattr(provider, "kept", lambda act, box: ["/elsewhere"])
    shutil.rmtree(world.place / "gpu/runs/toy/own")
    bring(world)
    return world


def bring(world, folder="res"):
    run = world.place / "gpu/runs/toy"
    saved = {str(file.relative_to(run)): file.read_bytes() for file in run.rglob("*.pt")}
    copy = home_copy.describe_copy(released(world.place / folder, saved))
    other_runs.find_others(boxes.parse("gpu"), "~/runs/toy", copy)


def test_a_copy_here_is_read_just_before_the_stop(brought):
    brought.round()
    assert len(brought.stops) == 1


@pytest.mark.parametrize("how", [how for how in LOST if "above" not in how])
def test_a_copy_here_that_is_lost_since_is_no_proof(brought, how):
    change, why = LOST[how]
    change(brought.place / "res")
    told = brought.round()
    assert not brought.stops and why in told.blocked["gpu"]
    assert any("gpu is 7.0 h past its end, and may still be billed" in x for x in told.lines)
    assert any("the stop would destroy what may be nowhere else: toy (its copy in" in x
               for x in told.lines)  # fmt: skip
    bring(brought, "anew")  # as the user then does
    brought.awake()
    brought.round()
    assert len(brought.stops) == 1


@pytest.mark.parametrize("where", ["out", "results/best"])
def test_what_another_program_saved_there_after_the_release_is_not_here(brought, where):
    run = brought.place / "gpu/runs/toy"
    (run / where).mkdir(parents=True)
    (run / where / "1.pt").write_text("1")
    job = {"job": {"checkpoint": {"folder": "out"}, "results": ["results/*"]}, "rendered": {}}
    (run / "run.d/job-0/job.json").write_text(json.dumps(job))
    bring(brought)
    (run / where / "2.pt").write_text("2")
    told = brought.round()
    assert not brought.stops and "nowhere else: toy" in told.blocked["gpu"]
    (run / where / "2.pt").unlink()
    (run / "notes.txt").write_text("where no run saves")
    brought.awake()
    brought.round()
    assert len(brought.stops) == 1


def test_the_durable_place_is_compared_just_before_the_stop(world, monkeypatch):
    monkeypatch.setattr(provider, "kept", lambda act, box: ["/elsewhere"])
    run = world.place / "gpu/runs/toy"
    job = {"checkpoint": {"folder": "out"}, "durable": {"to": "s3://b/x", "what": ["out"]}}
    (run / "run.d/job-0/job.json").write_text(json.dumps({"job": job, "rendered": {}}))
    (run / "out").mkdir()
    (run / "out/2.pt").write_text("2")
    (run / "syncs").write_text("1")  # it was emptied since, or isn't reached
    told = world.round()
    assert not world.stops and told.blocked["gpu"].endswith("nowhere else: toy")
    (run / "syncs").write_text("0")
    (world.place / "gpu/asked").unlink()
    world.awake()
    world.round()
    assert len(world.stops) == 1 and (world.place / "gpu/asked").read_text() == "sync\n" * 2


def test_a_durable_place_of_which_a_stop_keeps_the_box_is_not_compared(world):
    world.round()
    assert len(world.stops) == 1 and not (world.place / "gpu/asked").exists()


@pytest.mark.parametrize("where", ["work/theirs", "runs/group/theirs"])
def test_a_run_that_is_not_at_its_usual_place_is_seen(brought, where):
    run = fake_run(brought.place / "gpu", "theirs", alive=False, phase="done")
    put_job(run, {"job": {}, "rendered": {}})
    (brought.place / "gpu" / where).parent.mkdir(parents=True)
    run.rename(brought.place / "gpu" / where)
    told = brought.round()
    assert not brought.stops and told.blocked["gpu"].endswith(f"/gpu/{where}")


@pytest.mark.parametrize("began", ["", "{}", None])
def test_a_run_that_tells_of_no_attempt_may_have_saved_all_the_same(brought, began):
    run = fake_run(brought.place / "gpu", "again", alive=False, phase="failed")
    (run / ".failed").write_text("{}")
    if began is not None:
        (run / "attempt.json").write_text(began)
    brought.round()
    assert len(brought.stops) == 1
    fake.change(brought.account, boxes=[brought.row("gpu")])
    (run / "out").mkdir()
    (run / "out/final.pt").write_text("the only copy")
    brought.awake()
    forget_stops()
    told = brought.round()
    assert len(brought.stops) == 1 and told.blocked["gpu"].endswith("/again/out/final.pt")


def test_what_another_user_keeps_on_the_box_is_named(brought):
    for name in ("best.pt", "a.ckpt", "b.ckpt", "c.ckpt"):
        (brought.place / "gpu" / name).write_text("weights")
    told = brought.round()
    assert not brought.stops
    assert told.blocked["gpu"].endswith("1 files more") and "/gpu/a.ckpt" in told.blocked["gpu"]


def test_a_release_of_which_only_the_moment_is_known_is_no_proof(brought):
    lines = [json.loads(line) for line in ledger.place().open()]
    for line in lines:
        line.pop("to", None), line.pop("manifest", None)
    ledger.place().write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    told = brought.round()
    assert not brought.stops and "where its copy lies isn't known" in told.blocked["gpu"]


@pytest.mark.parametrize("change", ["begins", "goes on"])
def test_a_run_that_begins_while_a_copy_is_read_keeps_its_box(brought, monkeypatch, change):
    def reads(copy):
        folder = brought.place / "gpu/runs/toy"
        if change == "begins":
            fake_run(brought.place / "gpu", "other", deadline=brought.now + HOUR)
        else:
            (folder / ".done").write_text("{}")
            os.utime(folder / ".done", (1, brought.now + 60))
        return ""

    monkeypatch.setattr(guard, "why_lost", reads)
    brought.round()
    assert not brought.stops


def test_an_id_that_was_given_to_another_box_is_left_alone(world):
    later = datetime.fromtimestamp(world.now - HOUR, timezone.utc).isoformat()
    fake.change(world.account, boxes=[world.row("gpu", LaunchTime=later)])
    told = world.round()
    assert not world.stops and "another time" in told.blocked["gpu"]
    assert any("gpu is 7.0 h past its end" in line for line in told.lines)


@pytest.fixture
def alive(world):
    """The same, but its run lives on past the end that the box itself knows."""
    shutil.rmtree(world.place / "gpu/runs/toy")
    fake_run(world.place / "gpu", "toy", alive=True, deadline=world.now - 7 * HOUR)
    return world


@pytest.mark.parametrize("state", ["terminated", "shutting-down", "stopped"])
def test_a_box_that_is_said_to_be_gone_and_runs_on_is_told(alive, state):
    row = alive.row("gpu", State={"Code": 48, "Name": state})
    fake.change(alive.account, boxes=[row])
    told = alive.round()
    assert told.code == 1 and not alive.stops
    assert any("gpu is 7.0 h past its end, and may still be billed" in x for x in told.lines)


@pytest.mark.parametrize("text", ["garbage\n", '{"t": 1, "event": "opened"}\n{"t":\n', "", None])
def test_a_ledger_that_lost_a_confirmed_box_is_told_and_the_box_is_looked_at(world, text):
    ledger.place().unlink()
    guard_files.place("ledger.json").unlink()
    if text is not None:
        ledger.place().write_text(text)
    told = world.round()
    assert told.code == 2 and not world.stops
    assert "the list of boxes is damaged" in told.lines[0] and "gpu" in told.lines[0]
    assert any("gpu is 7.0 h past its end, and may still be billed" in x for x in told.lines)
    assert guard_files.read().lost([]) == {"gpu:22": "gpu"}


@pytest.mark.parametrize("text", ["before", None])
def test_a_box_that_an_older_list_of_boxes_lacks_is_told_until_it_is_forgotten(world, text):
    before = ledger.place().read_bytes()
    ledger.opened("late:22", "late")
    if text:
        ledger.place().write_bytes(before)
    else:
        shutil.rmtree(ledger.jobs_place())
        for file in (ledger.place(), guard_files.place("confirmed.json")):
            file.unlink()
    (world.place / "late").mkdir()
    told = world.round()
    assert told.code == 2 and not world.stops and "doesn't have " in told.lines[0]
    names = ["late:22"] if text else ["gpu:22", "late:22"]
    assert typed(told.lines[0]) == [f"rgt release {name} --forget" for name in names]
    assert run("release", "late", "--forget").return_value == 0
    assert "late" not in str(world.round().lines)


@pytest.mark.parametrize("hours", [0.5, 3.0])
def test_a_box_on_which_nothing_ever_ran_is_told_after_an_hour(world, hours):
    ledger.opened("idle:22", "idle", now=world.now - 72 * HOUR)
    ledger.opened("new:22", "new", now=world.now - hours * HOUR)
    world.job("new", "refused", world.now - hours * HOUR, deadline="200h")
    for name in ("idle", "new"):
        (world.place / name).mkdir()
    refused = fake_run(world.place / "new", "refused", alive=False, phase="failed")
    (refused / ".failed").write_text("{}")
    lines = world.round().lines
    assert any(
        "idle answers and may be billed, and no run has begun there for 3" in x for x in lines
    )
    told = any("new answers and may be billed, and no run has begun" in x for x in lines)
    assert told is (hours > 1)


def test_what_the_list_of_boxes_holds_is_noted_in_each_round(world):
    note = guard_files.place("ledger.json")
    note.unlink()  # as an older release left it
    world.round()
    ledger.place().unlink()
    assert ledger.lost() == {"gpu:22": "gpu"}


def test_a_confirmed_box_that_is_known_to_be_gone_is_not_damage(world):
    ledger.gone("gpu:22", "gpu", "the user says so")
    assert (world.round().lines, guard_files.read().last.code) == ([], 0)


@pytest.mark.parametrize("text", ['{"addr', None])
def test_a_run_whose_job_file_is_lost_is_warned_of_by_the_end_that_its_box_knows(alive, text):
    file = ledger.place().parent / "jobs/gpu-toy.json"
    file.unlink()
    if text is not None:
        file.write_text(text)
    told = alive.round()
    assert told.code == (2 if text else 1) and not alive.stops
    assert ("gpu-toy.json is damaged (it isn't JSON)" in told.lines[0]) is (text is not None)
    assert any("gpu is 7.0 h past its end, and may still be billed" in x for x in told.lines)


@pytest.mark.parametrize(
    ("own", "others", "why"),
    [
        ("elsewhere", ["gpu"], "doesn't show i-gpu at gpu:22, but i-new0"),
        ("elsewhere", [], "doesn't show i-gpu at gpu:22"),
        ("", [], "doesn't show i-gpu at gpu:22"),
        ("gpu", ["gpu"], "several boxes at gpu:22: i-gpu, i-new0"),
    ],
)
def test_a_box_that_ssh_did_not_ask_is_never_stopped(world, own, others, why):
    rows = [
        world.row("gpu", InstanceId=f"i-new{n}", PublicIpAddress=host)
        for n, host in enumerate(others)
    ]
    fake.change(world.account, boxes=[world.row("gpu", PublicIpAddress=own), *rows])
    told = world.round()
    assert not world.stops and why in told.blocked["gpu"]
    assert any("gpu is 7.0 h past its end" in line and why in line for line in told.lines)


def test_a_pod_whose_port_is_another_now_is_left_alone(world, monkeypatch):
    monkeypatch.setenv("RUNPOD_API_KEY", "key")
    made = datetime.fromtimestamp(world.made, timezone.utc).isoformat()
    pod = {**fake.RUNPOD, "ssh": {"direct": {"host": "gpu", "port": 22}}, "createdAt": made}
    fake.change(world.account, key="key", boxes=[pod])
    asked = provider.of("runpod")
    own, _ = guard.candidate(asked, "gpu", "gpu:22", world.made + 60, "", "alarm", world.now)
    guard_files.confirm(own)
    world.drill()
    moved = {**pod, "ssh": {"direct": {"host": "gpu", "port": 4000}}}
    for row, stops in ((moved, 0), (pod, 1)):
        fake.change(world.account, boxes=[row])
        world.awake()
        told = world.round()
        assert len([x for x in fake.calls(world.account) if "action" in str(x)]) == stops, told
        assert ("same address" in str(told.blocked)) is (stops == 0)


def test_a_box_of_another_address_is_not_confirmed(world):
    fake.change(world.account, boxes=[world.row("gpu", PublicIpAddress="elsewhere")])
    done = run("guard", "confirm", "gpu", "--provider", "aws", "--id", "i-gpu", "--yes")
    assert "doesn't show i-gpu at gpu:22" in str(done.exception)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"fail": {"describe-instances": [255, "AuthFailure"]}}, 2),
        ({"fail": {"describe-instances": [0, "{}"]}}, 2),
        ({"fail": {"describe-instances": [0, '{"Reservations": [7]}']}}, 2),
        ({"fail": {"get-caller": [255, "ExpiredToken"]}}, 2),
        ({"fail": {"-sSI": [6, "no network"]}}, 1),
        ({"account": 78}, 1),
        ({"clock": 4000}, 1),
        ({"boxes": []}, 1),
    ],
)
def test_a_provider_that_fails_lies_or_is_another_stops_nothing_and_the_bill_is_told(
    world, change, code
):
    fake.change(world.account, **change)
    told = world.round()
    assert not world.stops and told.code == code
    assert "drill" not in str(told.blocked)
    assert any("gpu is 7.0 h past its end, and may still be billed" in line for line in told.lines)


def test_a_run_that_leaves_its_box_on_has_less_to_do_after_its_deadline():
    job = {"checkpoint": {"save_seconds": 60}, "at_end": {"do": "stop", "unproven_minutes": 30}}
    assert end_seconds(job) == 2 * 60 + 300 + 30 * 60 + 600
    assert end_seconds({**job, "at_end": {"do": "keep", "unproven_minutes": 30}}) == 2 * 60 + 300


def test_a_stop_that_does_not_happen_is_told_in_the_next_round(world):
    fake.change(world.account, deaf=True)
    world.round()
    world.awake()
    file = guard_files.place("journal.jsonl")
    file.write_text(file.read_text().replace('"t": ', '"t": -').replace('"t": -', f'"t": {world.now - 600}, "x": '))  # fmt: skip
    assert any(
        "was asked to stop 10 min ago, and the provider's list still shows it" in x
        for x in world.round().lines
    )


def test_a_guard_that_was_ended_during_a_stop_says_that_nobody_knows_whether_it_was_heard(world):
    fake.change(world.account, deaf=True)
    asked_to_stop(world, 3)
    lines = world.round().lines
    assert any(
        x.startswith("a guard was ended 3.0 min ago while it asked gpu to stop") for x in lines
    ), lines
    assert not world.stops


def forget_stops():
    """Let the journal hold what was confirmed, and nothing that was done since."""
    file = guard_files.place("journal.jsonl")
    kept = [line for line in file.read_text().splitlines(True) if '"step": "confirmed"' in line]
    file.write_text("".join(kept))


def asked_to_stop(world, *minutes, host="gpu"):
    """Let the journal say that a box was asked to stop so many minutes ago."""
    own = guard_files.read().confirmed[at(host)]
    with guard_files.place("journal.jsonl").open("a") as file:
        for ago in minutes:
            told = {"t": world.now - 60 * ago, "step": "stop", "id": own.id, "created": own.created}
            file.write(json.dumps(told) + "\n")


def test_a_box_that_three_stops_did_not_end_is_told_loudly_in_each_round(world):
    fake.change(world.account, deaf=True)
    asked_to_stop(world, 40, 30, 20)
    sent = []
    for tries in (3, 4):
        world.awake()
        told = guard.work(dict(os.environ), world.now, lambda line: None, sent.append)
        assert told.code == 2
        loud = f"THE BILL GOES ON: gpu was asked to stop {tries} times in 40 min"
        assert any(line.startswith(loud) for line in told.lines), told
    assert len([line for line in sent if "THE BILL GOES ON" in line]) == 1  # not each ten minutes
    assert {tuple(line[1:3]) for line in world.stops} == {("ec2", "stop-instances")}


def test_a_slow_command_of_the_user_does_not_hold_up_a_stop(world):
    stops = []
    guard.work(dict(os.environ), world.now, lambda line: None, lambda line: stops.append(len(world.stops)))  # fmt: skip
    assert stops and set(stops) == {1}


def test_a_box_that_does_not_stop_holds_up_no_other(world):
    fake.change(world.account, boxes=[world.row("gpu"), world.row("gpu2")], deaf=True)
    world.box("gpu2")
    world.confirm("gpu2")
    asked_to_stop(world, 20)
    world.round()
    assert [line[-3] for line in world.stops] == ["i-gpu2"]


def test_what_was_asked_before_a_box_was_off_does_not_count(world):
    asked_to_stop(world, 40, 30, 20)
    fake.change(world.account, boxes=[world.row("gpu", State={"Code": 80, "Name": "stopped"})])
    assert world.round().code == 1
    fake.change(world.account, boxes=[world.row("gpu")])
    world.awake()
    told = world.round()
    assert not any("BILL" in line or "and still runs" in line for line in told.lines), told


@pytest.mark.parametrize("state", ["terminated", None])
def test_a_box_that_the_list_calls_ended_is_quiet_one_that_it_lacks_is_told_and_none_is_forgotten(
    world, state
):
    ledger.gone("gpu:22", "gpu", "")
    world.box("gone")
    fake.change(world.account, boxes=[world.row("gone")])
    world.confirm("gone")
    rows = [world.row("gone", State={"Code": 48, "Name": state}, PublicIpAddress=None)]
    fake.change(world.account, boxes=rows if state else [])
    for _ in range(2):
        told = world.round()
        assert any("gone is 7.0 h past its end" in x for x in told.lines) is (state is None)
        assert state is None or (told.lines, told.code) == ([], 0)
        before = guard_files.read().last
        before.silent = {"gone": world.now - HOUR}
        guard_files.note_round(before)
    assert [box.name for box in ledger.still_open()] == ["gone"]  # only the user forgets one
    fake.change(world.account, boxes=[world.row("gone")])
    assert "gone is 7.0 h past its end, and may still be billed" in world.round().lines[0]


def test_a_clock_that_lies_behind_the_provider_is_told_where_no_end_has_passed(world):
    world.job("gpu", "toy", world.now - 8 * HOUR, deadline="20h")
    assert "differ" not in str(world.round().lines)
    fake.change(world.account, clock=48 * HOUR)
    world.awake()
    told = world.round()
    assert (told.code, world.stops) == (1, [])
    assert told.lines[0].startswith("this clock and that of aws differ by 2.0 days"), told


def test_what_the_user_was_not_told_is_sent_again(world):
    got, broken = [], []

    def send(line):
        if broken:
            raise guard_files.Unfit(f"--notify failed for: {line}")
        got.append(line)

    fake.change(world.account, deaf=True)
    broken.append(True)
    told = guard.work(dict(os.environ), world.now, lambda line: None, send)
    assert told.code == 2 and "--notify failed" in told.lines[-1] and not got
    broken.clear()
    world.awake()
    guard.work(dict(os.environ), world.now, lambda line: None, send)
    assert any("gpu is 7.0 h past its end" in line for line in got)


def test_a_line_about_another_box_is_new_though_the_names_differ_by_a_number(world):
    got = []
    for host in ("gone1", "gone2"):
        world.awake()
        world.box(host)
        guard.work(dict(os.environ), world.now, lambda line: None, got.append)
    assert any("gone1 is" in line for line in got) and any("gone2 is" in line for line in got)


def test_many_slow_regions_do_not_keep_a_bill_untold(world, monkeypatch):
    monkeypatch.setattr(provider, "ALL", -1.0)
    told = world.round()
    assert told.code == 2 and "regions took more than" in told.lines[0] and not world.stops
    assert any("gpu is 7.0 h past its end" in line for line in told.lines)


@pytest.mark.parametrize("kind", ["systemd", "launchd"])
def test_a_timer_that_does_not_start_is_not_shown_as_one(world, kind, monkeypatch):
    monkeypatch.setattr(guard_timer, "_run", lambda words, given="": None)
    done = run("guard", "install", "--as", kind, "--yes")
    assert "failed; run it yourself" in str(done.exception)
    assert guard_timer.installed() == [] and "timer: none" in run("guard", "status").output


def test_a_crontab_that_cannot_be_read_is_not_written_anew(world, monkeypatch, tmp_path):
    file = tmp_path / "bin" / "crontab"
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        f"#!/bin/sh\n[ $1 = - ] && cat >{tmp_path}/tab || {{ echo busy >&2; exit 1; }}\n"
    )
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}:{os.environ['PATH']}")
    done = run("guard", "install", "--as", "cron", "--yes")
    assert "your lines might be lost" in str(done.exception) and not (tmp_path / "tab").exists()
    file.write_text(file.read_text().replace("busy", "no crontab for me"))
    assert run("guard", "install", "--as", "cron", "--yes").return_value == 0
    assert "guard --once" in (tmp_path / "tab").read_text()


@pytest.mark.parametrize(
    ("leads_to", "stops"),
    [(["198.51.100.7"], 1), (["198.51.100.7", "198.51.100.8"], 0), (["198.51.100.8"], 0), ([], 0)],
)
def test_a_box_under_a_name_is_stopped_where_the_name_leads_to_it_alone(
    world, monkeypatch, leads_to, stops
):
    fake.change(world.account, boxes=[world.row("gpu", PublicIpAddress="198.51.100.7")])
    monkeypatch.setattr(boxes, "numbers", lambda box, limit: ["198.51.100.7"])
    world.confirm()
    monkeypatch.setattr(boxes, "numbers", lambda box, limit: leads_to)
    told = world.round()
    assert len(world.stops) == stops
    assert ("same address" in str(told.blocked)) is (not stops)


def test_a_box_that_can_only_be_warned_of_is_told_so_when_it_is_confirmed(world, monkeypatch):
    fake.change(world.account, boxes=[world.row("gpu", PublicIpAddress="198.51.100.7")])
    monkeypatch.setattr(boxes, "numbers", lambda box, limit: ["198.51.100.8"])
    done = run("guard", "confirm", "gpu", "--provider", "aws", "--id", "i-gpu", "--yes")
    assert "the guard can only warn of that box" in str(done.exception)
    assert "i-gpu at gpu:22, which is 198.51.100.8:22" in str(done.exception)


def test_a_dead_box_is_an_alarm_unless_the_user_chose_the_bill(world, monkeypatch):
    row = world.row("gone")
    fake.change(world.account, boxes=[world.row("gpu"), row])
    world.box("gone")
    world.confirm("gone")
    fake.change(world.account, boxes=[row])
    before = guard_files.read().last
    before.silent = {"gone": world.now - 2 * HOUR}
    guard_files.note_round(before)
    told = world.round()
    assert not world.stops and "if_unreachable is alarm" in told.blocked["gone"]
    world.confirm("gone", "stop")
    world.awake()
    world.round()
    assert [line[-3] for line in world.stops] == ["i-gone"]


def test_the_time_in_which_this_machine_slept_is_no_silence_of_a_box(world):
    world.box("gone")
    fake.change(world.account, boxes=[world.row("gone")])
    ledger.gone("gpu:22", "gpu", "")
    world.confirm("gone", "stop")
    before = guard_files.read().last
    before.silent, before.up = {"gone": world.now - 2 * HOUR}, before.up - 3 * HOUR
    guard_files.note_round(before)
    assert "guard awake" in world.round().blocked["gone"]
    world.awake()
    told = world.round()
    assert not world.stops and "silent for 0 s only" in told.blocked["gone"]


def test_a_run_that_is_known_by_another_name_of_the_box_keeps_it(world):
    world.box("gone")
    world.job("gone", "long", world.now - 8 * HOUR, deadline="20h")
    row = world.row("gpu", Name="gone")
    fake.change(world.account, boxes=[{**row, "PublicDnsName": "gone"}])
    told = world.round()
    assert not world.stops and "its end is in 12" in told.blocked["gpu"], told


def test_a_provider_that_refuses_the_key_is_no_network_that_is_down(world):
    world.box("gone")
    ledger.gone("gpu:22", "gpu", "")
    fake.change(world.account, fail={"get-caller": [254, "AuthFailure"]})
    told = world.round()
    assert told.code == 2 and "network may be down" not in str(told.lines)
    assert any("gone is 7.0 h past its end" in line for line in told.lines)


def test_two_boxes_that_fall_silent_at_once_are_judged_later(world):
    for host in ("gone1", "gone2"):
        world.box(host)
    told = world.round()
    assert "fell silent at once" in str(told.blocked) and not world.stops


def test_a_box_that_nobody_confirmed_is_only_warned_of(world):
    guard_files.place("confirmed.json").unlink()
    told = world.round()
    assert told.code == 1 and not fake.calls(world.account)[2:] or not world.stops
    assert "you haven't confirmed" in told.lines[0]


def test_one_box_a_round(world):
    fake.change(world.account, boxes=[world.row("gpu"), world.row("gpu2")])
    world.box("gpu2")
    world.confirm("gpu2")
    told = world.round()
    assert len(world.stops) == 1 and "one a round" in str(told.blocked)


def test_a_second_guard_and_a_home_that_cannot_be_written_say_so(world, monkeypatch):
    with guard_files.place("lock").open("w") as file:
        lock(file.fileno())
        with pytest.raises(guard_files.Unfit, match="another guard"):
            world.round()
    file = guard_files.place("journal.jsonl")
    file.unlink(missing_ok=True)
    file.mkdir()
    told = world.round()
    assert told.code == 2 and not world.stops
    assert "journal.jsonl is damaged (is a directory)" in told.lines[0]
    assert any("gpu is 7.0 h past its end, and may still be billed" in x for x in told.lines)


def test_a_guard_that_cannot_lock_looks_and_warns_and_stops_nothing(world):
    guard_files.place("lock").mkdir()
    told = world.round()
    assert told.code == 2 and not world.stops and "can't write" in told.lines[0]
    assert any("gpu is 7.0 h past its end, and may still be billed" in x for x in told.lines)


def run(*words):
    return CliRunner().invoke(cli, words, standalone_mode=False)


def test_the_user_pauses_confirms_and_sees_why_not(world, tmp_path, monkeypatch):
    assert run("guard", "--pause").return_value == 0
    done = run("guard", "--once", "--notify", f"tee {tmp_path}/told")
    assert done.return_value == 1 and not world.stops and "the guard is paused" in done.output
    assert "past its end" in (tmp_path / "told").read_text()
    run("guard", "--unpause")
    guard_files.place("confirmed.json").unlink()
    done = run("guard", "confirm", "gpu", "--provider", "aws")
    assert done.return_value == 1 and not guard_files.read().confirmed  # nobody was asked
    done = run("guard", "confirm", "gpu", "--provider", "aws", "--yes")
    assert done.return_value == 0 and "aws ec2 stop-instances --region us-east-1" in done.output
    monkeypatch.setattr(guard_timer, "installed", lambda: ["cron"])
    assert "confirmed here: gpu" in run("guard", "status").output


def test_what_is_confirmed_must_be_the_box_that_was_reached(world):
    later = datetime.fromtimestamp(world.now - HOUR, timezone.utc).isoformat()
    fake.change(world.account, boxes=[world.row("gpu", LaunchTime=later)])
    done = run("guard", "confirm", "gpu", "--provider", "aws", "--yes")
    assert "was made after gpu was first reached" in str(done.exception)
    fake.change(world.account, boxes=[world.row("gpu"), world.row("gpu", InstanceId="i-2")])
    done = run("guard", "confirm", "gpu", "--provider", "aws", "--yes")
    assert "2 times" in str(done.exception)


@pytest.mark.parametrize("kind", guard_timer.KINDS)
def test_a_timer_is_shown_and_not_written_without_a_yes(world, kind, monkeypatch):
    monkeypatch.setenv("PATH", "/o dd/%h/$x:/bin")
    ran = []
    monkeypatch.setattr(
        guard_timer, "_run", lambda words, given="": ran.append((words, given)) or ""
    )
    done = run("guard", "install", "--as", kind)
    made = guard_timer.timer(kind, ["--notify", "a 'b'"])
    assert done.return_value == 1 and not ran
    assert not any(file.exists() for file in made.files)
    assert "guard" in done.output and "--once" in done.output
    if kind != "launchd":
        assert r"\%h" in made.line or '/o dd/%%h/$$x:/bin"' in made.as_text()
    assert run("guard", "install", "--as", kind, "--yes").return_value == 0
    assert all(file.exists() for file in made.files) and (ran or kind == "launchd")
