"""A job starts on a box: what is sent, what stays here, and what shows that it trains."""

import json
import os
import re
import subprocess
from dataclasses import replace

import pytest
from remote_gpu_trainer.boxes import box
from remote_gpu_trainer.platforms.profile import ProfileError
from remote_gpu_trainer.runner import procs
from remote_gpu_trainer.runner.folder import Folder
from remote_gpu_trainer.runner.probing import LOOKING
from remote_gpu_trainer.runs import calling, code_files, job_start, known_jobs
from remote_gpu_trainer.runs.job_errors import JobError
from remote_gpu_trainer.runs.status_reply import FailedAttempt, Signs, Status
from remote_gpu_trainer.runs.transfer import link, sending, wire
from remote_gpu_trainer.runs.transfer.sending import NotSent, Parcel

from tests.engines.fake_run import fake_run
from tests.engines.sshd import boxes, sshd  # noqa: F401

GPU = box.Box("gpu", "gpu")
JOB = {"name": "toy", "command": ["python3", "train.py"], "gpus": 0, "deadline": "1h"}
NOW = 1795000000.0  # in November 2026


def git(folder, *words):
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "a"}
    names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *names, *words], cwd=folder, env=env, check=True, capture_output=True)


@pytest.fixture
def code(tmp_path):
    """A repository with one tracked program."""
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "train.py").write_text("print('step 1')\n")
    git(folder, "add", ".")
    return folder


def test_what_git_tracks_is_sent_as_it_is_now_and_new_files_are_named(code):
    (code / "train.py").write_text("print('step 2')\n")
    (code / "gone.py").write_text("")
    git(code, "add", ".")
    (code / "gone.py").unlink()
    (code / "new.py").write_text("")
    (code / ".gitignore").write_text("data/\n")
    git(code, "add", ".gitignore")
    (code / "data").mkdir()
    (code / "data/big.bin").write_bytes(bytes(1000))
    found = code_files.choose(code)
    assert sorted(found.sizes) == [".gitignore", "train.py"] and found.tracked
    assert found.untracked == ["new.py"] and found.bytes == 16 + 6


KEYS = {
    ".env": "A=1",
    ".env.local": "A=1",
    "deploy/id_ed25519": "x",
    "certs/server.pem": "x",
    ".netrc": "machine x",
    "kaggle.json": "{}",
    **dict.fromkeys((".pypirc", ".npmrc", ".boto", ".s3cfg", ".htpasswd"), "x"),
    **dict.fromkeys(("rclone.conf", "kubeconfig", "client_secret_1.json"), "x"),
    **dict.fromkeys((".aws/credentials", ".docker/config.json", ".kube/config"), "x"),
    **dict.fromkeys((".ssh/config", "deploy/.gnupg/trustdb.gpg"), "x"),
    "odd.txt": "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n",
    "service.json": '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\n"}',
}


@pytest.mark.parametrize("tracked", [True, False])
def test_keys_stay_here_even_where_git_tracks_them(code, tracked):
    for name, content in KEYS.items():
        (code / name).parent.mkdir(exist_ok=True, parents=True)
        (code / name).write_text(content)
    (code / "tokenizer.py").write_text("# reads -----BEGIN PRIVATE KEY-----\n")
    (code / "my_kaggle.json").write_text("{}")
    (code / "docker").mkdir()
    (code / "docker/npmrc").write_text("x")
    if tracked:
        git(code, "add", "-f", ".")
    else:
        subprocess.run(["rm", "-rf", code / ".git"], check=True)
    found = code_files.choose(code)
    assert sorted(found.sizes) == ["docker/npmrc", "my_kaggle.json", "tokenizer.py", "train.py"]
    # Without git, hidden folders aren't even looked into.
    hidden = {name for name in KEYS if re.search(r"(^|/)\.\w+/", name) and not tracked}
    assert set(found.keys) == set(KEYS) - hidden


def test_a_file_that_holds_a_token_is_named_with_its_line(code):
    (code / "conf.yaml").write_text("a: 1\ntoken: hf_abcdefghijklmnopqrstuvwxyz012345\n")
    (code / "read.py").write_text("import os\ntoken = os.environ['HF_TOKEN']\n")
    (code / "big.txt").write_text("hf_abcdefghijklmnopqrstuvwxyz012345\n" * 10_000)
    git(code, "add", ".")
    assert job_start.with_secrets(code_files.choose(code)) == ["conf.yaml:2"]


def test_a_folder_without_git_is_sent_but_for_what_is_nobodys_code(tmp_path):
    for name in ("a.py", ".venv/x.py", "__pycache__/a.pyc", "sub/b.py", ".hidden/c", "venv/d.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "link").symlink_to("sub")
    found = code_files.choose(tmp_path)
    assert sorted(found.sizes) == ["a.py", "link", "sub/b.py"] and not found.tracked
    assert found.left == [".hidden/", ".venv/", "__pycache__/", "venv/"]


def parcel(folder, names, **texts):
    given = {name: (text.encode(), 0o600) for name, text in texts.items()}
    return Parcel("~/runs/toy", {f"code/{name}": folder / name for name in names}, given)


def test_files_arrive_whole_and_a_second_time_only_what_changed(sshd, tmp_path):
    names = ["a b.py", "$(touch x)", "sub/run.sh", "link", "é.txt", "-rf"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if name == "link":
            (tmp_path / name).symlink_to("a b.py")
        else:
            (tmp_path / name).write_bytes(os.urandom(3000))
    (tmp_path / "sub/run.sh").chmod(0o755)
    first = sending.send(GPU, parcel(tmp_path, names, script="text"))
    there = sshd.home / "runs/toy"
    assert (first.files, first.new, first.bytes) == (7, 7, 5 * 3000 + 4)
    for name in names:
        assert (there / "code" / name).read_bytes() == (tmp_path / name).read_bytes()
    assert (there / "code/sub/run.sh").stat().st_mode & 0o777 == 0o755
    assert (there / "script").stat().st_mode & 0o777 == 0o600
    assert os.readlink(there / "code/link") == "a b.py"
    (there / "code/out").mkdir()
    (there / "code/out/step_1.pt").write_text("weights")
    (tmp_path / "a b.py").write_text("changed")
    again = sending.send(GPU, parcel(tmp_path, names[:-1], script="text"))
    assert (again.files, again.new, again.bytes) == (6, 1, 7)
    assert (there / "code/a b.py").read_text() == "changed"
    assert not (there / "code/-rf").exists(), "what isn't sent any more is gone there"
    assert (there / "code/out/step_1.pt").read_text() == "weights"
    assert not list(sshd.home.glob("**/x")) and not list(there.glob(f"**/{wire.PARTS}"))


def test_a_sending_that_broke_off_changes_nothing_and_leaves_nothing(tmp_path, monkeypatch):
    names = ["a.bin", "b.bin", "sub/c.bin"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(os.urandom(3_000_000))
    there = tmp_path / "box/runs/toy"
    (there / "code").mkdir(parents=True)
    (there / "code/a.bin").write_text("of the last start")
    (there / "code/mine").write_text("of the user")
    local, given = box.parse("local"), parcel(tmp_path, names)
    given = replace(given, folder=str(there))
    with monkeypatch.context() as patch:
        cut = link.Wire.send_pieces

        def corrupt(self, file, size, digest):
            if self.moved > 4_000_000:
                raise wire.Broken("cut")
            return cut(self, file, size, digest)

        patch.setattr(wire.Wire, "send_pieces", corrupt)
        with pytest.raises(NotSent):
            sending.send(local, given)
    assert (there / "code/a.bin").read_text() == "of the last start", "all of it changes, or none"
    sent = sending.send(local, replace(given, paths=dict(list(given.paths.items())[:2])))
    assert (there / "code/a.bin").read_bytes() == (tmp_path / "a.bin").read_bytes()
    assert sent.new == 2 and not (there / "code/sub").exists()
    assert {path.name for path in there.iterdir()} == {"code", "sent.json"}
    assert {path.name for path in (there / "code").iterdir()} == {"a.bin", "b.bin", "mine"}


def test_an_equal_size_and_time_is_no_equal_content(sshd, tmp_path):
    (tmp_path / "a.py").write_text("aaaa")
    sending.send(GPU, parcel(tmp_path, ["a.py"]))
    there = sshd.home / "runs/toy/code/a.py"
    told = there.stat()
    there.write_text("bbbb")
    os.utime(there, ns=(told.st_atime_ns, told.st_mtime_ns))
    assert sending.send(GPU, parcel(tmp_path, ["a.py"])).new == 1
    assert there.read_text() == "aaaa"


@pytest.mark.parametrize("full", ["code", "run"])
def test_what_does_not_arrive_is_told(sshd, tmp_path, full):
    (tmp_path / "a.py").write_text("aaaa")
    (sshd.home / "runs/toy").mkdir(parents=True)
    if full == "code":
        (sshd.home / "runs/toy/code").write_text("a file in the way")
    else:
        (sshd.home / "runs/toy").rmdir()
        (sshd.home / "runs/toy").write_text("a file in the way")
    with pytest.raises(NotSent, match=r"sending to ~/runs/toy on gpu failed \(.*look whether"):
        sending.send(GPU, parcel(tmp_path, ["a.py"]))
    sshd.stop()
    with pytest.raises(NotSent, match="refused"):
        sending.send(GPU, parcel(tmp_path, ["a.py"]))


def test_a_file_that_changes_all_the_while_is_told(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("aaaa")
    monkeypatch.setattr(wire, "NAP", 0.0)
    monkeypatch.setattr(wire, "_is_still", lambda *_: False)
    monkeypatch.setattr(wire.Sender, "_begins_with", lambda *_: False)
    given = replace(parcel(tmp_path, ["a.py"]), folder=str(tmp_path / "there"))
    with pytest.raises(
        NotSent, match="1 files on local aren't as they are here .code/a.py changed"
    ):
        sending.send(box.parse("local"), given)
    assert not (tmp_path / "there/code").exists()


def planned(code, **fields):
    given = {**JOB, "code": str(code), **fields}
    return job_start.plan(given, "generic-ssh", GPU, NOW)


def test_another_plan_for_the_same_code_does_not_read_it_again(code, monkeypatch):
    first = planned(code)
    monkeypatch.setattr(job_start.code_files, "subprocess", None)
    given = {**JOB, "code": str(code), "budget": "2 USD", "price": "1 USD"}
    again = job_start.plan(given, "generic-ssh", GPU, NOW, before=first)
    assert (again.code, again.state) == (first.code, first.state)
    assert again.job.ends != first.job.ends


def test_a_plan_holds_the_script_its_folder_and_the_code(code):
    for checkpoint in ({}, {"checkpoint": {"folder": "out"}}):
        found = planned(code, **checkpoint)
        assert set(found.parcel.paths) == {"code/train.py"}
        assert [*found.parcel.texts][-1] == "run.sh", "it comes last"
        own = {name.split("/")[2] for name in found.parcel.texts if "/runner-" in name}
        assert own == {"probe.py", "snapshot.py", "remote_gpu_trainer"}
        assert found.rendered.script.startswith("#!/usr/bin/env bash")


def test_the_probe_is_sent_only_for_a_job_that_has_it(code):
    names = [*planned(code, probe=False).parcel.texts]
    assert any(name.endswith("/snapshot.py") for name in names)
    assert not any(name.endswith("/probe.py") for name in names)


@pytest.mark.parametrize(
    ("fields", "untracked", "said"),
    [
        ({"command": ["python3", "new.py"]}, "new.py", "git doesn't track new.py"),
        ({"command": "cd . && python3 ./new.py"}, "new.py", "git doesn't track new.py"),
        ({"command": ["python3", "other.py"]}, "", "code: no other.py in"),
        ({"command": ["python3", "train.py", "--token", ".env"]}, "", "looks like a key"),
        ({"environment": "requirements.txt"}, "requirements.txt", "git doesn't track require"),
        ({"nodes": 2, "launcher": "torchrun"}, "", "nodes: this starts one box"),
        ({"command": ""}, "", "command: is empty, so there is nothing to run"),
        ({"deadline": None}, "", "deadline"),
        (
            {"deadline": "2020-01-01T00:00Z"},
            "",
            "deadline: has passed; write deadline: 20h, or a later time$",
        ),
    ],
)
def test_what_would_fail_on_the_box_is_refused_before_anything_is_sent(
    code, fields, untracked, said
):
    (code / ".env").write_text("A=1")
    git(code, "add", "-f", ".env")
    if untracked:
        (code / untracked).write_text("")
    with pytest.raises(JobError, match=said):
        planned(code, **fields)


@pytest.mark.parametrize("platform", ["slurm", "kubernetes"])
def test_a_scheduler_starts_its_own_jobs(code, platform):
    with pytest.raises(JobError, match=f"{platform}: its own scheduler"):
        job_start.plan({**JOB, "code": str(code)}, platform, GPU, NOW)


def test_an_empty_repository_and_an_empty_folder_are_told_apart(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(JobError, match="is empty"):
        planned(tmp_path / "a", command=["true"])
    git(tmp_path / "a", "init", "-q")
    with pytest.raises(JobError, match="git tracks no file"):
        planned(tmp_path / "a", command=["true"])


def test_code_is_never_changed_under_a_run_that_is_alive(sshd, code):
    fake_run(sshd.home)
    with pytest.raises(job_start.Living, match="toy is alive on gpu at step 120; rgt status"):
        job_start.refuse_living(GPU, planned(code))
    fake_run(sshd.home, runner_alive=False)
    with pytest.raises(
        job_start.Living, match="without its runner.*; rgt resume goes on with it, rgt stop"
    ):
        job_start.refuse_living(GPU, planned(code))
    fake_run(sshd.home, phase="done", alive=False)
    with pytest.raises(job_start.Done, match="toy has finished on gpu, so nothing was started"):
        job_start.refuse_living(GPU, planned(code))
    fake_run(sshd.home, phase="failed", alive=False)
    assert job_start.refuse_living(GPU, planned(code)).state == "failed"
    sshd.stop()
    with pytest.raises(job_start.NotStarted, match="refused"):
        job_start.refuse_living(GPU, planned(code))


def states(monkeypatch, *found, **given):
    """Let the box answer with one state after another, a second apart."""
    answers = iter(found)
    monkeypatch.setattr(job_start.status, "ask", lambda *_: next(answers))
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    told = []
    begun = job_start.watch(
        GPU,
        "~/runs/toy",
        lambda s: told.append(s.phase),
        clock=lambda: now[0],
        sleep=sleep,
        **given,
    )
    return begun, told


def going(phase="running", attempt=1, **signs):
    return Status("alive", "gpu", phase=phase, attempt=attempt, signs=Signs(**signs))


def test_a_step_or_a_new_checkpoint_shows_that_it_trains(monkeypatch):
    begun, told = states(monkeypatch, going("preflight"), going("staging"), going(), going(step=0))
    assert begun.sign == "step 0" and told == ["preflight", "staging", "running"]
    begun, _ = states(monkeypatch, going(), going(checkpoint="out/step_3.pt"))
    assert begun.sign == "a new checkpoint, out/step_3.pt"


def test_work_alone_is_no_sign_and_after_a_while_nobody_waits_for_one(monkeypatch):
    begun, _ = states(monkeypatch, *[going(cpu_seconds=2.0 * n) for n in range(80)])
    assert begun.sign == "" and begun.status.state == "alive"
    assert begun.quiet == (
        "no step and no checkpoint within 120 s, in which it used 120 s of CPU time: whether it "
        "trains isn't known"
    )
    begun, _ = states(monkeypatch, *[going(cpu_seconds=8.0)] * 40, going(step=1))
    assert (begun.sign, begun.quiet) == ("step 1", "")
    idle = [going(cpu_seconds=0.2)] * 80
    begun, _ = states(monkeypatch, *idle, Status("failed", "gpu", phase="failed"))
    assert (begun.sign, begun.status.state) == ("", "failed")


def test_an_attempt_of_this_start_that_failed_is_told_whatever_the_next_one_does(monkeypatch):
    error = FailedAttempt(3, "exit status 1", ["ValueError: bad"])

    def after(attempt, **signs):
        return replace(going(attempt=attempt, **signs), failed_attempt=error)

    begun, _ = states(monkeypatch, going(attempt=3), after(4), after(4, step=2), last_attempt=2)
    assert (begun.failed, begun.sign) == (error, "step 2")
    begun, _ = states(monkeypatch, *[after(4, cpu_seconds=4.0)] * 60, last_attempt=2)
    assert (begun.failed, begun.sign, begun.quiet) == (error, "", ""), "the next isn't waited for"
    begun, _ = states(
        monkeypatch, replace(going(attempt=3, step=1), probe=LOOKING), *[after(4)] * 60
    )
    assert begun.sign == "", "the first one's step is none of the second"
    begun, _ = states(monkeypatch, after(4, step=2), last_attempt=3)
    assert begun.failed is None, "that was before this start"


def test_a_box_that_does_not_answer_for_a_moment_is_asked_again(monkeypatch):
    away = Status("unreachable", "gpu", why="refused")
    begun, _ = states(monkeypatch, going(), away, away, going(step=7))
    assert begun.sign == "step 7"


def test_a_program_that_ends_at_once_is_told_as_what_it_came_to(monkeypatch):
    begun, _ = states(monkeypatch, going("preflight"), Status("finished", "gpu", phase="done"))
    assert (begun.sign, begun.status.state) == ("", "finished")


def test_a_run_that_ended_meanwhile_lacks_no_step_that_it_had(monkeypatch):
    looked_at = replace(going(step=1), probe=LOOKING)
    done = Status("finished", "gpu", phase="done", step=60, attempt=1)
    begun, _ = states(monkeypatch, looked_at, done)
    assert (begun.sign, begun.lacks) == ("step 1", [])
    saved = replace(going(checkpoint="a.pt"), probe=LOOKING)
    begun, _ = states(monkeypatch, saved, replace(done, step=None))
    assert begun.lacks == ["step", "loss"], "it saved, and its log tells no step"


def test_of_several_living_runs_none_is_chosen(sshd):
    assert calling.the_living_one(GPU) == ""
    fake_run(sshd.home, "old", phase="done", alive=False)
    fake_run(sshd.home, "toy")
    procs.note_pid(Folder(str(sshd.home / "runs/toy")), "runner", os.getpid())
    # A restart gives small numbers to others: these processes live, and are not the runs'.
    for number, pid in enumerate((1, os.getppid())):
        fake_run(sshd.home, f"gone{number}", phase="running", alive=False)
        (sshd.home / f"runs/gone{number}/lock").write_text(f"{pid} 1\n")
    assert calling.the_living_one(GPU) == "toy"
    fake_run(sshd.home, "other")
    procs.note_program(Folder(str(sshd.home / "runs/other")), os.getpid())
    with pytest.raises(calling.NotCalled, match=r"2 runs are alive on gpu \(other, toy\)"):
        calling.the_living_one(GPU)
    with pytest.raises(calling.NotCalled, match="no run script in"):
        calling.verb(GPU, "gone", "stop")


def test_what_a_script_prints_is_only_text(sshd):
    folder = fake_run(sshd.home)
    (folder / "run.sh").write_text(
        "printf '\\033[31mred token=abcdef123456\\n'; echo oops >&2; exit 3\n"
    )
    answer = calling.verb(GPU, "toy", "stop")
    assert (answer.code, answer.folder) == (3, str(folder))
    assert answer.lines == ["red token=***", "oops"]
    assert json.dumps(answer.lines)


@pytest.mark.parametrize(("said", "place", "used"), [
    ("", GPU, "vastai"), ("runpod", GPU, "runpod"), ("", box.Box("local"), "local"),
])  # fmt: skip
def test_the_job_names_its_platform_where_the_command_doesnt(monkeypatch, said, place, used):
    monkeypatch.setattr("remote_gpu_trainer.runs.rendering._is_here", lambda platform: False)
    assert job_start.plan({**JOB, "platform": "vastai"}, said, place, NOW).platform.name == used


def test_a_platform_that_nobody_knows_is_refused():
    with pytest.raises(ProfileError, match="vasti.*vastai"):
        job_start.plan({**JOB, "platform": "vasti"}, "", GPU, NOW)


@pytest.mark.parametrize(("then", "now", "used"), [
    ({}, {}, "runpod"), ({}, {"platform": "vastai"}, "vastai"),
    ({"platform": "vastai"}, {"platform": "vastai"}, "runpod"),
])  # fmt: skip
def test_a_run_that_goes_on_keeps_its_platform_unless_the_job_names_another(then, now, used):
    known = known_jobs.Known("box", "~/runs/toy", "runpod", then, NOW)
    assert job_start.platform_named(now, known) == used
