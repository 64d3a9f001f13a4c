"""One protocol both ways: it goes on where a killed ssh broke it off, follows no link, and needs nothing here but ssh."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from remote_gpu_trainer.boxes import box
from remote_gpu_trainer.runs.transfer import link, pulling, sending, wire
from remote_gpu_trainer.runs.transfer.sending import NotSent, Parcel

from tests.cli.test_laptop import AS_ON_WINDOWS
from tests.engines.fake_ssh import fake_ssh
from tests.engines.sshd import boxes, sshd  # noqa: F401

GPU, LOCAL = box.Box("gpu", "gpu"), box.Box("local")
LARGE = 60_000_000


def pull(where, folder, here, own=()):
    return pulling.pull(where, {"": (str(folder), ())}, Path(here), lambda sizes: set(own))


def send(where, folder, there):
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return sending.send(where, Parcel(str(there), paths, {}))


@pytest.fixture
def counted(monkeypatch):
    """The bytes of files that went over all connections, and the connections."""
    wires = []
    made = wire.Wire.__init__

    def note(self, *words):
        made(self, *words)
        wires.append(self)

    monkeypatch.setattr(wire.Wire, "__init__", note)
    return wires


@pytest.fixture
def killer(monkeypatch, counted):
    """Kill the ssh of a connection, once so many bytes have gone over it: [bytes, …], one each."""
    limits, ended = [], threading.Event()
    streams = []
    opened = box.Stream.__init__

    def note(self, process, *words):
        opened(self, process, *words)
        streams.append(process)

    def look():
        while not ended.wait(0.001):
            for limit, one, process in zip(limits, list(counted), list(streams), strict=False):
                if one.moved >= limit and process.poll() is None:
                    with suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGKILL)

    monkeypatch.setattr(box.Stream, "__init__", note)
    thread = threading.Thread(target=look)
    thread.start()
    yield limits
    ended.set()
    thread.join()


def large(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "w.bin").write_bytes(os.urandom(LARGE))
    (folder / "small.txt").write_text("a")
    return folder


def test_a_pull_goes_on_where_its_ssh_was_killed(sshd, tmp_path, killer, counted):
    there = large(sshd.home / "run")
    killer += [LARGE // 3, LARGE // 3]
    pulled = pull(GPU, there, tmp_path / "here")
    assert (tmp_path / "here/w.bin").read_bytes() == (there / "w.bin").read_bytes()
    assert len(counted) == 3 and not pulled.differing
    assert sum(one.moved for one in counted) < LARGE * 1.6, "what had come isn't sent again"
    assert sorted(os.listdir(tmp_path / "here")) == ["small.txt", "w.bin"]


def test_a_sending_goes_on_where_its_ssh_was_killed(sshd, tmp_path, killer, counted):
    here, there = large(tmp_path / "code"), sshd.home / "runs/toy"
    killer += [LARGE // 2]
    sent = send(GPU, here, there)
    assert (there / "w.bin").read_bytes() == (here / "w.bin").read_bytes()
    assert (sent.files, sent.new) == (2, 2) and len(counted) == 2
    assert sum(one.moved for one in counted) < LARGE * 1.6
    assert sorted(os.listdir(there)) == ["sent.json", "small.txt", "w.bin"]


def test_a_box_that_goes_away_in_the_middle_is_told_and_the_next_one_goes_on(
    sshd, tmp_path, monkeypatch, counted
):
    there = large(sshd.home / "run")
    monkeypatch.setattr(link, "PATIENCE", 0.0)
    taken = wire.Receiver._take_bytes

    def cut(self, name, row, moves):
        def look():
            moves()
            if self.coming > LARGE // 2:
                sshd.cut()

        return taken(self, name, row, look)

    with monkeypatch.context() as patch:
        patch.setattr(wire.Receiver, "_take_bytes", cut)
        with pytest.raises(pulling.Unreleased, match="nothing listens at gpu|broke before"):
            pull(GPU, there, tmp_path / "here")
    assert not (tmp_path / "here/w.bin").exists()
    sshd.start()
    before = len(counted)
    pull(GPU, there, tmp_path / "here")
    assert (tmp_path / "here/w.bin").read_bytes() == (there / "w.bin").read_bytes()
    assert sum(one.moved for one in counted[before:]) < LARGE * 0.6


def test_a_part_whose_file_is_another_by_now_is_taken_as_far_as_it_is_equal(tmp_path, counted):
    there, here = large(tmp_path / "there"), tmp_path / "here"
    content = bytearray((there / "w.bin").read_bytes())
    receiver = wire.Receiver(None, str(here))
    os.makedirs(receiver.parts)
    Path(receiver._part("w.bin")).write_bytes(content)
    content[LARGE // 2] ^= 1
    (there / "w.bin").write_bytes(content[:-5])
    pulled = pull(LOCAL, there, here)
    assert (here / "w.bin").read_bytes() == bytes(content[:-5])
    assert not pulled.differing and counted[0].moved < LARGE * 0.6


def test_times_and_the_right_to_run_come_with_a_file(tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    (there / "run").write_text("x")
    (there / "run").chmod(0o755)
    (there / "data").write_text("x")
    os.utime(there / "data", (1_700_000_000, 1_700_000_000))
    for copy in (
        lambda to: pull(LOCAL, there, to, ["run", "data"]),
        lambda to: send(LOCAL, there, to),
    ):
        to = tmp_path / f"to{time.monotonic_ns()}"
        copy(to)
        assert os.access(to / "run", os.X_OK) and not os.access(to / "data", os.X_OK)
        assert (to / "data").stat().st_mtime == 1_700_000_000
        (to / "run").chmod(0o644)
        copy(to)
        assert os.access(to / "run", os.X_OK), "an equal file gets it as well"


@pytest.mark.parametrize("way", ["folder", "file", "parts"])
def test_no_link_in_a_folder_leads_a_transfer_out(tmp_path, way):
    there, here, away = tmp_path / "there", tmp_path / "here", tmp_path / "away"
    for folder in (there / "out", here, away):
        folder.mkdir(parents=True)
    (there / "out/a").write_text("theirs")
    (away / "a").write_text("mine")
    if way == "folder":
        (here / "out").symlink_to(away)
    elif way == "file":
        (here / "out").mkdir()
        (here / "out/a").symlink_to(away / "a")
    else:
        (here / wire.PARTS).symlink_to(away)
    with pytest.raises(pulling.Unreleased, match="way of|isn't of this transfer|is a link"):
        pull(LOCAL, there, here)
    if way != "file":  # what is sent has its names in the folder; a link there is replaced
        with pytest.raises(NotSent, match="way of|is a link"):
            send(LOCAL, there, here)
    else:
        send(LOCAL, there, here)
        assert (here / "out/a").read_text() == "theirs" and not (here / "out/a").is_symlink()
    assert (away / "a").read_text() == "mine" and os.listdir(away) == ["a"]


def test_a_file_that_appears_while_others_come_is_not_written_over(tmp_path, monkeypatch):
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    (there / "a").write_text("theirs")
    put = wire.Receiver.put

    def late(self):
        (here / "a").write_text("mine")
        put(self)

    monkeypatch.setattr(wire.Receiver, "put", late)
    with pytest.raises(pulling.Unreleased, match="a in .*here isn't of this transfer"):
        pull(LOCAL, there, here)
    assert (here / "a").read_text() == "mine"


def test_a_second_pull_into_a_folder_waits_for_nobody(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    (there / "a").write_text("x")
    held = wire.Receiver(None, str(here))
    held.begin()
    with pytest.raises(pulling.Unreleased, match="another transfer to .*here is under way"):
        pull(LOCAL, there, here)
    held.end()
    assert pull(LOCAL, there, here).files


def test_a_sending_ends_an_older_one_whose_connection_is_lost(tmp_path):
    there = tmp_path / "box"
    (there / wire.PARTS).mkdir(parents=True)
    lock = there / wire.PARTS / "lock"
    code = (
        "import sys, fcntl, os, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); "
        "f.write(str(os.getpid())); f.flush(); print('held', flush=True); time.sleep(60)"
    )
    old = subprocess.Popen([sys.executable, "-c", code, lock], stdout=subprocess.PIPE)
    assert old.stdout.readline() == b"held\n"
    (tmp_path / "code").mkdir()
    (tmp_path / "code/a.py").write_text("x")
    assert send(LOCAL, tmp_path / "code", there).new == 1
    assert old.wait(10) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("name", "unix", "windows"),
    [
        ("out/model.pt", "", ""),
        ("a\\..\\..\\b", "", "no name"),
        ("C:\\Users\\me\\proj\\a", "", "no name"),
        ("C:evil", "", "no name"),
        ("out/log:stream", "", "no name"),
        ("../a", "no name", "no name"),
        ("/etc/passwd", "no name", "no name"),
        ("a/../../b", "no name", "no name"),
        ("", "no name", "no name"),
        (".", "no name", "no name"),
        ("a\0b", "no name", "no name"),
        ("out/nul.txt", "", "no name for Windows"),
        ("COM1", "", "no name for Windows"),
        ("out./a", "", "no name for Windows"),
        ("out/what?", "", "no name for Windows"),
        (".rgt-transfer/lock", "the folder of a transfer", "the folder of a transfer"),
        (".RGT-Transfer/lock", "the folder of a transfer", "the folder of a transfer"),
        ("out/console.txt", "", ""),
    ],
)
def test_each_name_of_a_box_is_a_file_below_the_folder_or_none(name, unix, windows):
    for says, on_windows in ((unix, False), (windows, True)):
        why = wire.unfit(name, on_windows)
        assert bool(why) == bool(says) and says in why and why.isprintable()


def test_a_file_that_cannot_be_here_is_told_and_the_others_come(tmp_path, monkeypatch):
    there = tmp_path / "there"
    there.mkdir()
    for name in ("at 12:30.log", "b"):
        (there / name).write_text("x")
    fits = wire.unfit
    monkeypatch.setattr(wire, "unfit", lambda name: fits(name, True))
    pulled = pull(LOCAL, there, tmp_path / "here")
    assert list(pulled.files) == ["b"] and list(pulled.differing) == ["at 12:30.log"]


def test_two_names_that_are_one_file_here_are_refused(tmp_path, monkeypatch):
    there = tmp_path / "there"
    there.mkdir()
    for name in ("model.pt", "Model.pt"):
        (there / name).write_text(name)
    exists = os.path.exists
    monkeypatch.setattr(
        os.path, "exists", lambda path: exists(str(path).replace(wire.PARTS.upper(), wire.PARTS))
    )
    with pytest.raises(pulling.Unreleased, match="would be the same file here"):
        pull(LOCAL, there, tmp_path / "here")


def test_only_ssh_is_needed_here_and_python_on_the_box(sshd, tmp_path, monkeypatch):
    here, tools = large(tmp_path / "code"), tmp_path / "tools"
    tools.mkdir()
    (tools / "ssh").symlink_to(shutil.which("ssh"))
    there = tmp_path / "there-tools"
    there.mkdir()
    for name in ("sh", "bash", "base64"):
        (there / name).symlink_to(shutil.which(name))
    # Not the one of the PATH, which may be a script that needs further programs.
    (there / "python3").symlink_to(os.path.realpath(sys.executable))
    login = sshd.place / "login"
    login.write_text(login.read_text().replace('cd "$HOME"', f'PATH={there}; cd "$HOME"'))
    monkeypatch.setenv("PATH", str(tools))
    assert send(GPU, here, sshd.home / "run").new == 2
    pulled = pull(GPU, sshd.home / "run", tmp_path / "back")
    assert set(pulled.files) == {"w.bin", "small.txt", "sent.json"}
    (there / "python3").unlink()
    with pytest.raises(NotSent, match="no python3 on gpu; install Python 3.8 or newer there"):
        send(GPU, here, sshd.home / "run")


def test_text_goes_over_small_and_what_does_not_shrink_as_it_is(tmp_path):
    sizes = {}
    for name, data in (
        ("text", b"def step(x): return x\n" * 20_000),
        ("noise", os.urandom(440_000)),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with path.open("rb") as file, (tmp_path / "out").open("wb") as out:
            told = wire.Wire(None, out)
            told.send_pieces(file, len(data), wire.hashlib.sha256())
        sizes[name] = (tmp_path / "out").stat().st_size
        with (tmp_path / "out").open("rb") as back:
            assert b"".join(wire.Wire(back, None).pieces()) == data
    assert sizes["text"] < 10_000 and 440_000 <= sizes["noise"] < 440_100


def test_what_says_it_is_small_and_is_not_is_refused(tmp_path):
    packed = wire.zlib.compress(bytes(50 << 20))
    (tmp_path / "bomb").write_bytes(b"z%d\n" % len(packed) + packed + b"0\n")
    with (tmp_path / "bomb").open("rb") as file, pytest.raises(wire.Broken):
        list(wire.Wire(file, None).pieces())


@pytest.mark.alone
@pytest.mark.engine
def test_a_large_checkpoint_comes_about_as_fast_as_by_rsync(sshd, tmp_path):
    if not shutil.which("rsync"):
        pytest.skip("rsync isn't installed")
    there = sshd.home / "run"
    there.mkdir()
    (there / "w.bin").write_bytes(os.urandom(200 << 20))

    def ours():
        pull(GPU, there, tmp_path / "ours")

    def theirs():
        words = ["rsync", "-rt", "-e", f"ssh -F {sshd.ssh_config}", f"gpu:{there}/"]
        subprocess.run([*words, f"{tmp_path}/theirs/"], check=True)

    took = {ours: [], theirs: []}
    for _ in range(4):  # in turns, the quickest of each: most of it is ssh's work in both
        for one, seconds in took.items():
            began = time.monotonic()
            one()
            seconds.append(time.monotonic() - began)
            shutil.rmtree(tmp_path / one.__name__)
    assert min(took[ours]) < 2 * min(took[theirs])


def test_files_go_both_ways_from_a_machine_as_windows_is_one(tmp_path, monkeypatch):
    """`rgt start`, `pull` and `release` where neither rsync nor any module or name of POSIX is."""
    place = fake_ssh(tmp_path, monkeypatch)
    (place / "gpu").mkdir()
    (place / "bin/ssh").write_text(
        (place / "bin/ssh").read_text().replace("\n", f"\nexport PATH={os.environ['PATH']}\n", 1)
    )
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, path in (("ssh", place / "bin/ssh"), ("git", shutil.which("git"))):
        (tools / name).symlink_to(path)
    code = tmp_path / "project"
    (code / "sub").mkdir(parents=True)
    (code / "train.py").write_text("print('step 1', flush=True); open('out.json', 'w').write('{}')")
    (code / "sub/data.bin").write_bytes(os.urandom(5_000_000))
    job = {"name": "toy", "command": ["python3", "train.py"], "code": str(code), "gpus": 0}
    job |= {"deadline": "1h", "probe": "off", "results": ["out.json"]}
    (tmp_path / "job.json").write_text(json.dumps(job))
    program = (
        AS_ON_WINDOWS + "from remote_gpu_trainer.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )

    def as_there(*words):
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PATH": str(tools)},
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    dry = as_there("start", "gpu", "job.json", "--dry-run")
    assert "nothing was sent" in dry.stderr and not (place / "gpu/runs").exists()
    told = as_there("start", "gpu", "job.json", "--yes")
    assert "all compared by SHA-256" in told.stderr
    there = place / "gpu/runs/toy/code/sub/data.bin"
    assert there.read_bytes() == (code / "sub/data.bin").read_bytes()
    as_there("status", "gpu", "--wait", "--every", "1s")
    as_there("pull", "gpu", "out.json", "--to", "pulled")
    assert (tmp_path / "pulled/out.json").read_text() == "{}"
    as_there("release", "gpu", "--to", "home", "--expect", "0")
    assert (tmp_path / "home/code/sub/data.bin").read_bytes() == there.read_bytes()
