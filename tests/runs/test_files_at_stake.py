"""What a stop would destroy: all that lies there and may be somebody's only copy, and nothing that comes back."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from remote_gpu_trainer.runs import card_users, files_at_stake, home_copy

from tests.engines.fake_run import fake_run, put_job

DESTROYED: tuple[str, ...] = ()


@pytest.fixture
def box(tmp_path, monkeypatch):
    home = tmp_path / "box"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    return home


def look(capsys, kept=DESTROYED, **asked):
    given = {"below": "~", "kept": kept, "seconds": 20, "runs": [], "durable": [], "places": []}
    files_at_stake.main([json.dumps({**given, **asked})])
    told = json.loads(capsys.readouterr().out)
    home = os.path.expanduser("~")
    told["files"] = [os.path.relpath(path, home) for path, _ in told["files"]]
    told["runs"] = [os.path.relpath(path, home) for path in told["runs"]]
    return told


def put(path, data=b"x"):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def a_run(home, name="toy", **job):
    run = fake_run(home, name, alive=False, phase="done")
    put_job(run, {"job": job, "rendered": {"work_dir": str(run / "code")}})
    put(run / ".done", b"{}")
    return run


def test_a_box_with_packages_and_caches_alone_has_nothing_to_lose(box, capsys):
    big = bytes(files_at_stake.COUNTS_FROM)
    for path in (
        ".cache/huggingface/hub/model.safetensors", ".local/bin/uv", ".triton/a.cubin", ".nv/b",
        "venv/lib/python3.11/site-packages/torch/lib/libtorch.so", "venv/bin/python3",
        "miniconda3/pkgs/x.tar", "miniconda3/lib/libmkl.so", "miniconda3/envs/e/lib/libx.so",
        "tmp/torchinductor_root/x/kernel.so", "p/__pycache__/a.pyc", "site-packages/w.so",
    ):  # fmt: skip
        put(box / path, big)
    put(box / "venv/pyvenv.cfg")
    put(box / "miniconda3/conda-meta/history")
    put(box / "miniconda3/envs/e/conda-meta/history")
    for path in (".bash_history", "notes.txt", "p/train.py", "empty.pt"):
        put(box / path, b"" if path == "empty.pt" else b"x")
    told = look(capsys)
    assert (told["files"], told["runs"], told["why"]) == ([], [], "")


@pytest.mark.parametrize(
    "path",
    [
        "best.pt", "work/x/model.SAFETENSORS", "venv/outputs/last.ckpt", ".held/a.npz", "d/e/x.tar",
        "venv/share/best/model.pt", "conda/envs/mine/project/model.pt", ".cache/mine/step_9.pt",
        ".local/share/mine/model.pt", ".cache/huggingface/lerobot/a.npz", "a.pdparams", "a.ckpt.bak",
    ],
)  # fmt: skip
def test_weights_count_wherever_they_lie(box, capsys, path):
    put(box / "venv/pyvenv.cfg")
    put(box / "conda/conda-meta/history")
    put(box / path)
    assert look(capsys)["files"] == [path]


NAMES = (
    "best_model", "model_last", "epoch_3.ubj", "lora.zip", "agent.pickle", "m.params.zst", "final.pt.1", "last.ckpt~", "step_90.json",
    "adapter_weights", "optim.bin.tmp", "snapshot",
)  # fmt: skip
TOLD = (
    "model.py", "best.log", "epoch_3.png", "model.safetensors.index.json", "model_config.json", "last_run.txt", "checkpoint.md", "weights.sh",
    "tokenizer_model.json", "steps.csv", "notes", "x.json", "package.json",
)  # fmt: skip


@pytest.mark.parametrize("name", [*NAMES, *TOLD])
def test_a_small_file_counts_by_a_name_of_a_save(box, capsys, name):
    put(box / "work" / name)
    assert bool(look(capsys)["files"]) == (name in NAMES)


WITHIN = (
    "venv/lib/python3.11/site-packages",
    "venv/bin",
    "node_modules/x",
    "__pycache__",
    "conda/share",
)


@pytest.mark.parametrize("folder", WITHIN)
def test_among_installed_software_what_is_named_like_weights_counts_unless_a_list_has_it(
    box, capsys, folder
):
    put(box / "venv/pyvenv.cfg")
    put(box / "conda/conda-meta/history")
    for name in ("model.pt", "epoch_3.pth.tar", "d/e/checkpoint-9/state"):
        put(box / folder / name, b"\0" * 500)
    for name in ("libx.so", "README.md", "checkpoint.py", "src.zip", "data"):
        put(box / folder / name, bytes(files_at_stake.COUNTS_FROM))
    assert sorted(look(capsys)["files"]) == sorted(
        f"{folder}/{name}" for name in ("model.pt", "epoch_3.pth.tar", "d/e/checkpoint-9/state")
    )


def test_what_a_package_lists_came_with_it_until_it_has_another_size(box, capsys):
    site, conda = box / "venv/lib/python3.11/site-packages", box / "conda"
    put(box / "venv/pyvenv.cfg")
    put(
        site / "lpips-0.1.dist-info/RECORD",
        b'lpips/alex.pth,,9\n"lpips/v,gg.pth",,9\nlpips/squeeze.pth,,\n',
    )
    put(conda / "conda-meta/torch.json", json.dumps({"files": ["share/torch/test.pt"]}).encode())
    for path in (
        site / "lpips/alex.pth",
        site / "lpips/v,gg.pth",
        site / "lpips/squeeze.pth",
        conda / "share/torch/test.pt",
    ):
        put(path, b"123456789")
    put(site / "distutils-precedence.pth", b"import os\n")
    put(box / "venv/bin/deepspeed.pt", b"#!/usr/bin/python3\n")
    put(conda / "pkgs/scipy/tests/data.npz")
    assert look(capsys)["files"] == []
    put(site / "lpips/alex.pth", b"1234567890")
    put(site / "mine.pth", b"\0\1")
    put(site / "lpips/best.pth")
    assert {Path(one).name for one in look(capsys)["files"]} == {"alex.pth", "mine.pth", "best.pth"}


@pytest.mark.parametrize(
    "name", ["hwdb.bin", "shells.state", "pkgcache.bin", "testtar.tar", "src.zip", "test.pb"]
)
def test_what_systems_make_by_themselves_is_no_save(box, capsys, name):
    put(box / ".cargo" / name)
    assert look(capsys)["files"] == []


def test_a_folder_of_the_system_that_no_user_reads_holds_nothing_of_a_user(
    box, capsys, monkeypatch
):
    (box / "lost+found/private").mkdir(parents=True)
    scan = os.scandir

    def closed(path):
        if str(path).endswith("private"):
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)
    assert look(capsys)["why"] == ""


def test_a_weight_of_a_package_that_was_written_over_counts(box, capsys):
    site, conda = box / "venv/lib/python3.11/site-packages", box / "conda"
    put(box / "venv/pyvenv.cfg")
    put(site / "lpips/alex.pth", b"123456789")
    digest = files_at_stake._digest_of(str(site / "lpips/alex.pth"))
    put(site / "lpips-0.1.dist-info/RECORD", f"lpips/alex.pth,sha256={digest},9\n".encode())
    told = {
        "files": ["lib/m/w.pt"],
        "paths_data": {"paths": [{"_path": "lib/m/w.pt", "size_in_bytes": 3}]},
    }
    put(conda / "conda-meta/m.json", json.dumps(told).encode())
    put(conda / "lib/m/w.pt", b"123")
    assert look(capsys)["files"] == []
    put(site / "lpips/alex.pth", b"987654321")
    put(conda / "lib/m/w.pt", b"1234")
    assert {Path(one).name for one in look(capsys)["files"]} == {"alex.pth", "w.pt"}


@pytest.mark.parametrize("is_seen", [True, False])
def test_an_overlay_is_looked_at_where_its_files_lie_on_no_other_mount(
    box, capsys, monkeypatch, is_seen
):
    put(box / "data/best.pt")
    upper = box / "upper" if is_seen else "/nowhere"
    (box / "upper").mkdir()
    monkeypatch.setattr(
        files_at_stake, "_mounts",
        lambda: {"/": ("ext4", ""), str(box / "data"): ("overlay", str(upper))},
    )  # fmt: skip
    assert look(capsys)["files"] == ([] if is_seen else ["data/best.pt"])


def test_a_table_of_mounts_tells_where_an_overlay_has_its_files(monkeypatch, tmp_path):
    line = "overlay /my\\040data overlay rw,lowerdir=/a,upperdir=/b\\040c,workdir=/d 0 0\n"
    file = put(tmp_path / "mounts", line.encode())
    real = open
    monkeypatch.setattr(
        "builtins.open",
        lambda name, *a, **k: real(file if name == "/proc/self/mounts" else name, *a, **k),
    )
    assert files_at_stake._mounts() == {"/my data": ("overlay", "/b c")}


def test_a_box_of_debian_lists_what_it_installed(tmp_path):
    lists = files_at_stake.Lists()
    put(
        tmp_path / "var/lib/dpkg/info/vim.list",
        b"/usr/share/vim/tutor.pt\n/lib/x.npz\n/usr/bin/vim\n",
    )
    for entry in os.scandir(tmp_path / "var/lib"):
        lists.note_folder(entry)
    assert lists.have(f"{tmp_path}/usr/share/vim/tutor.pt", 7)
    assert lists.have(f"{tmp_path}/usr/lib/x.npz", 7), "/lib is a link to /usr/lib"
    assert not lists.have(f"{tmp_path}/usr/share/vim/mine.pt", 7)


def test_what_a_run_saves_among_installed_software_counts_whatever_its_name(box, capsys):
    run = a_run(box, checkpoint={"folder": str(box / "venv/lib/out")})
    put(box / "venv/pyvenv.cfg")
    put(box / "venv/lib/out/9/data.json")
    put(box / "venv/lib/other/data.json")
    assert look(capsys)["files"] == ["venv/lib/out/9/data.json"]
    assert look(capsys)["runs"] == [os.path.relpath(run, box)]


@pytest.mark.parametrize(
    ("path", "is_left_out"),
    [("/lib64", True), ("/run", True), ("/libero", False), ("/libs", False)],
)
def test_a_folder_of_the_system_is_told_by_its_whole_name(path, is_left_out):
    assert bool(files_at_stake.SYSTEM.fullmatch(path)) == is_left_out


def test_a_large_file_of_any_name_counts(box, capsys):
    put(box / "shard_100", bytes(files_at_stake.COUNTS_FROM))
    put(box / "shard_99", bytes(files_at_stake.COUNTS_FROM - 1))
    assert look(capsys)["files"] == ["shard_100"]


def test_where_a_run_saves_all_counts_and_links_are_followed(box, capsys):
    run = a_run(box, checkpoint={"folder": "out"}, results=["res/*.json"])
    put(run / "code/out/step_1.json")
    put(run / "code/res/a.json")
    put(run / "code/train.py")
    put(box / "scratch/big/step_9.json")
    (run / "code/out/step_9").symlink_to(box / "scratch/big")
    (run / "code/out/again").symlink_to(run / "code")
    put(box / "scratch/other.json")
    told = look(capsys)
    saved = {"runs/toy/code/out/step_1.json", "runs/toy/code/res/a.json", "scratch/big/step_9.json"}
    assert saved <= set(told["files"]) and "scratch/other.json" not in told["files"]
    assert told["runs"] == ["runs/toy"]


def test_a_checkpoint_behind_a_link_from_a_kept_volume_counts(box, capsys, tmp_path):
    volume = tmp_path / "volume"
    run = a_run(volume, checkpoint={"folder": "out"})
    put(box / "scratch/step_9.json")
    (run / "code/out").mkdir(parents=True)
    (run / "code/out/step_9").symlink_to(box / "scratch")
    assert look(capsys, runs=[str(run)])["files"] == ["scratch/step_9.json"]


def test_a_run_that_is_only_half_there_is_a_run(box, capsys):
    put(box / "copied/run.d/job-1/job.json", b"{}")
    put(box / "project/run.sh", b"python train.py")
    assert look(capsys)["runs"] == ["copied"]


def test_what_the_stop_keeps_is_not_looked_at(box, capsys):
    put(box / "best.pt")
    mount = box
    while not os.path.ismount(mount):
        mount = mount.parent
    assert look(capsys, kept=[str(mount)])["files"] == []
    assert look(capsys, kept=[f"{mount}/elsewhere"])["files"] == ["best.pt"]


def test_code_that_was_sent_counts_only_once_it_was_changed(box, capsys):
    run = a_run(box)
    weights = put(run / "code/base.pt")
    put(run / "sent.json", json.dumps(["code/base.pt"]).encode())
    assert look(capsys)["files"] == []
    put(run / "code/new.pt").rename(weights)
    assert look(capsys)["files"] == ["runs/toy/code/base.pt"]


def test_a_folder_that_cannot_be_read_and_one_that_is_too_full_are_told(box, capsys, monkeypatch):
    (box / "secret").mkdir()
    scan = os.scandir

    def closed(path):
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)
    assert look(capsys)["why"] == f"{box}/secret can't be read (Permission denied)"
    monkeypatch.setattr(os, "scandir", scan)
    for number in range(9):
        put(box / f"{number}.pt")
    monkeypatch.setattr(files_at_stake, "MOST_FILES", 5)
    assert "can't be looked at" in look(capsys)["why"]
    monkeypatch.setattr(files_at_stake, "MOST_FILES", 50)
    monkeypatch.setattr(files_at_stake, "MOST_TOLD", 5)
    assert look(capsys)["why"] == "over 5 files count"


def durable(box, to="s3://b/x", code="0", **more):
    run = a_run(box, checkpoint={"folder": "out"}, durable={"to": to, "what": ["out"], **more})
    put(run / "code/out/1.pt")
    put(run / "own/final-sync")
    put(run / "own/place.json", json.dumps({"to": to, "id": "a"}).encode())
    put(run / "syncs", code.encode())
    return run


@pytest.mark.parametrize(("code", "files"), [("0", []), ("1", ["runs/toy/code/out/1.pt"])])
def test_what_a_durable_place_holds_is_asked_of_it_again(box, capsys, code, files):
    run = durable(box, code=code)
    told = look(capsys, runs=[str(run)], durable=[str(run)])
    assert told["files"] == files and told["runs"] == (["runs/toy"] if files else [])
    put(run / "code/more/best.pt")
    told = look(capsys, runs=[str(run)], durable=[str(run)])
    assert told["files"] == [*files, "runs/toy/code/more/best.pt"]


@pytest.mark.parametrize("how", ["a path", "its own ssh address", "as the job says"])
def test_a_durable_place_that_dies_with_the_box_proves_nothing(box, capsys, how):
    to = {"a path": str(box / "keep"), "its own ssh address": "box:keep"}.get(how, "s3://b/x")
    run = durable(box, to, on_this_box=how == "as the job says")
    if how == "its own ssh address":
        put(box / "keep/.rgt-place", b'{"id": "a"}')
        put(box / "keep/out.generations/1/data.json")
    told = look(capsys, runs=[str(run)], durable=[str(run)])
    assert told["runs"] == ["runs/toy"] and told["files"] == ["runs/toy/code/out/1.pt"]
    if how == "its own ssh address":  # a run answers for what it copied there, and for no more
        put(box / "keep/by hand/model.pt")
        told = look(capsys, runs=[str(run)], durable=[str(run)])
        assert "keep/by hand/model.pt" in told["files"]


def test_a_durable_place_whose_run_is_gone_is_somebodys_only_copy(box, capsys):
    put(box / "keep/.rgt-place", b'{"id": "b"}')
    put(box / "keep/out.generations/1/data.json")
    assert "keep/out.generations/1/data.json" in look(capsys)["files"]


@pytest.mark.parametrize("way", ["moved", "replaced with its old times", "behind a link"])
def test_a_change_of_a_run_shows_though_its_times_are_old(box, way):
    run = a_run(box, checkpoint={"folder": "out"})
    file = put(run / "code/out/1.json", b"1")
    (run / "code/out/more").symlink_to(box / "scratch")
    new = put(box / "new.json", b"2")
    for path in (new, file):
        os.utime(path, (1, 1))
    put(box / "scratch/2.json")
    before = files_at_stake.files_of_run(str(run))
    assert files_at_stake.files_of_run(str(run)) == before
    if way == "behind a link":
        put(box / "scratch/3.json")
    else:
        new.rename(file if way.startswith("replaced") else file.with_name("best.json"))
    assert files_at_stake.files_of_run(str(run)) != before


def test_a_copy_tells_what_it_holds_of_each_place(tmp_path):
    manifest = {
        "files": [{"path": "out/1.pt", "bytes": 1}, {"path": "big/a/2.pt", "bytes": 2},
                  {"path": "bigger.pt", "bytes": 3}, {"path": "one.pt", "bytes": 4}],
        "places": {"big": "~/scratch/big", "one.pt": "/data/one.pt"},
    }  # fmt: skip
    (tmp_path / home_copy.MANIFEST).write_text(json.dumps(manifest))
    copy = home_copy.describe_copy(tmp_path)
    assert home_copy.read_sizes(copy) == {
        "": {"out/1.pt": 1, "bigger.pt": 3}, "~/scratch/big": {"a/2.pt": 2},
        "/data/one.pt": {"": 4},
    }  # fmt: skip
    (tmp_path / home_copy.MANIFEST).write_text('{"files": 7}')
    assert home_copy.read_sizes(copy) == {}


# Who uses the cards.

SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def program(box):
    made = []

    def start(*words, **variables):
        env = {"PATH": os.environ["PATH"], "HOME": str(box), **variables}
        made.append(subprocess.Popen(words or [sys.executable, "-c", SLEEP], env=env, cwd=box))
        while not card_users.read_words(made[-1].pid):
            pass
        return made[-1]

    yield start
    for one in made:
        one.kill()
        one.wait()


def users(capsys, *runs):
    code = card_users.main(["~", *map(str, runs)])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else None


@pytest.fixture
def cards(monkeypatch):
    """No card of this machine is seen."""
    monkeypatch.setattr(card_users, "DEVICES", ())
    monkeypatch.setattr(card_users, "_named", lambda: [])
    return monkeypatch


def test_where_no_card_can_be_seen_any_python_may_use_one(program, cards, capsys):
    program("sleep", "60")
    assert users(capsys) == (0, [])
    program()
    code, [command] = users(capsys)
    assert code == 0 and command.endswith(SLEEP)


def test_python_that_gave_itself_another_name_counts(program, cards, capsys, box):
    given = ["bash", "-c", f"exec -a ray::Trainer {sys.executable} -c '{SLEEP}'"]
    one = program(*given)
    while not card_users.read_words(one.pid).startswith(b"ray::"):
        pass
    code, [command] = users(capsys)
    assert code == 0 and command.startswith("ray::Trainer")


def test_a_program_below_usr_is_the_systems_where_its_lists_have_it(tmp_path, monkeypatch):
    def is_of_system(path):
        return card_users._is_of_system(f"/usr/bin/python3\0-u\0{path}\0".encode())

    monkeypatch.setattr(card_users, "LISTS", str(tmp_path / "*.list"))
    assert is_of_system("/usr/bin/axolotl"), "nothing tells what came with the system"
    put(tmp_path / "updates.list", b"/usr\n/usr/bin/unattended-upgrade\n")
    assert is_of_system("/usr/bin/unattended-upgrade")
    assert not is_of_system("/usr/bin/axolotl") and not is_of_system("/usr/local/bin/torchrun")


def test_who_holds_a_card_open_uses_it_and_other_python_does_not(program, cards, capsys, box):
    cards.setattr(card_users, "DEVICES", (str(box / "card"),))
    put(box / "card")
    program()
    assert users(capsys) == (0, [])
    other = program("sleep", "60")
    real = card_users.read_open_files
    cards.setattr(card_users, "read_open_files",
                  lambda pid: {"3": "/dev/nvidia0"} if pid == other.pid else real(pid))  # fmt: skip
    assert users(capsys) == (0, ["sleep 60"])
    cards.setattr(card_users, "read_open_files", lambda pid: {})  # of another user
    code, [command] = users(capsys)
    assert command.endswith(SLEEP)


def test_what_nvidia_smi_names_uses_a_card_and_its_failure_is_not_nobody(program, cards, capsys):
    other = program("sleep", "60")
    cards.setattr(card_users, "_named", lambda: [other.pid])
    assert users(capsys) == (0, ["sleep 60"])
    cards.setattr(card_users, "_named", lambda: None)
    assert users(capsys) == (1, None)


@pytest.mark.parametrize(("text", "named"), [("exit 18", None), ("echo 77; exit 0", [77])])
def test_the_exit_code_of_nvidia_smi_counts(tmp_path, monkeypatch, text, named):
    tool = put(tmp_path / "bin/nvidia-smi", f"#!/bin/sh\n{text}\n".encode())
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    assert card_users._named() == named


@pytest.mark.parametrize("lives", [True, False])
def test_a_process_is_ours_only_while_its_known_run_lives(program, cards, capsys, box, lives):
    run = a_run(box)
    if lives:
        (run / ".done").unlink()
    program(RGT_RUN_DIR=str(run / "cells/a"))
    assert len(users(capsys, run)[1]) == (0 if lives else 1)
    assert len(users(capsys)[1]) == 1, "a run that isn't known is somebody else's"


def test_the_runner_of_a_known_run_is_ours(program, cards, capsys, box):
    run = a_run(box)
    program(sys.executable, "-c", SLEEP, str(run / "run.sh"), RGT_OWN="1")
    assert users(capsys, run) == (0, []) and len(users(capsys)[1]) == 1
