"""The durable place: its identity, and what is refused before the first step."""

import json
import os
import zipfile

import pytest
from remote_gpu_trainer.runner import durable, safe, sync
from remote_gpu_trainer.runner.copies import generations, place

from tests.runner.copying import events, fill, make, tool


def reasons(run) -> list[str]:
    return [refusal.reason for refusal in durable.check(run)]


def test_a_place_gets_an_id_at_first_use_and_keeps_it(tmp_path):
    run = make(tmp_path)
    assert durable.check(run) == [] and durable.is_place(run) == ""
    first = (tmp_path / "durable/.rgt-place").read_text()
    assert durable.place_id(run) == json.loads(first)["id"] != ""
    assert durable.check(run) == [] and (tmp_path / "durable/.rgt-place").read_text() == first
    again = make(tmp_path, rendered={"run_dir": str(tmp_path / "another box")})
    assert durable.check(again) == [] and durable.place_id(again) == durable.place_id(run)
    assert sorted(os.listdir(tmp_path / "durable")) == [".rgt-place"]


def test_a_place_that_is_empty_now_or_another_one_is_refused(tmp_path):
    run = make(tmp_path)
    durable.check(run)
    (tmp_path / "durable/.rgt-place").unlink()
    assert "held this run before, is empty or has lost" in reasons(run)[0]
    assert "own/place.json" in reasons(run)[0], "what to do"
    (tmp_path / "durable/.rgt-place").write_text('{"id": "other"}')
    assert "is another one now" in reasons(run)[0]
    (tmp_path / "durable/.rgt-place").write_text("broken")
    assert durable.is_place(run)
    run.folder.remove("own/place.json")
    assert durable.check(run) == []


@pytest.mark.parametrize("written", ["$BOX_VOLUME/runs", "${BOX_VOLUME}/runs"])
def test_a_place_may_begin_with_a_variable_of_the_box(tmp_path, monkeypatch, written):
    monkeypatch.delenv("BOX_VOLUME", raising=False)
    assert (
        "which isn't set here; export it before the start"
        in reasons(make(tmp_path, durable={"to": written}))[0]
    )
    monkeypatch.setenv("BOX_VOLUME", str(tmp_path / "volume"))
    run = make(tmp_path, durable={"to": written})
    assert run.durable == str(tmp_path / "volume/runs") and reasons(run) == []
    monkeypatch.delenv("BOX_VOLUME")
    later = make(tmp_path, durable={"to": written})  # a login without the variable
    assert later.durable == run.durable and durable.is_place(later) == ""
    monkeypatch.setenv("BOX_VOLUME", str(tmp_path / "another"))
    assert make(tmp_path, durable={"to": written}).durable == str(tmp_path / "another/runs")


def test_only_a_leading_name_is_a_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("BOX_VOLUME", "/volume")
    for written in ("/data/$BOX_VOLUME", "host:$BOX_VOLUME/x", "$BOX_VOLUMEs", "$BOX_VOLUME-2"):
        assert make(tmp_path, durable={"to": written}).durable == written


def test_a_place_on_the_box_s_own_disk_is_refused_unless_the_job_says_so(tmp_path, monkeypatch):
    run = make(tmp_path, durable={"on_this_box": False})
    monkeypatch.setattr(durable, "on_own_disk", lambda path: "root disk")
    assert "is on this box's own root disk" in reasons(run)[0]
    assert "durable.on_this_box: true" in reasons(run)[0]
    assert not (tmp_path / "durable").exists()
    monkeypatch.setattr(durable, "on_own_disk", lambda path: "")
    assert reasons(run) == []
    monkeypatch.setattr(durable, "on_own_disk", lambda path: "root disk")
    assert "held this run before: is its volume mounted?" in durable.is_place(run)


def test_the_root_disk_and_memory_are_known():
    assert durable.on_own_disk("/no such folder/below/it") == "root disk"
    if os.path.ismount("/dev/shm"):
        assert durable.on_own_disk("/dev/shm/x/y") == "memory"
    if os.path.ismount("/sys"):
        assert durable.on_own_disk("/sys/kernel") == ""


def test_a_disk_that_a_stop_loses_is_known_below_its_partitions_and_its_arrays(tmp_path):
    disks = {"nvme0n1": "Amazon Elastic Block Store", "nvme1n1": durable.INSTANCE_STORE}
    for name, model in disks.items():
        (tmp_path / name / "device").mkdir(parents=True)
        (tmp_path / name / "device/model").write_text(f"{model}   \n")
        (tmp_path / name / f"{name}p1").mkdir()
        (tmp_path / f"md-{name}/slaves").mkdir(parents=True)
        (tmp_path / f"md-{name}/slaves/x").symlink_to(tmp_path / name / f"{name}p1")
    for form in ("{}", "{0}/{0}p1", "md-{}"):
        paths = [str(tmp_path / form.format(name)) for name in disks]
        assert [durable._is_instance_store(path) for path in paths] == [False, True]
    assert not durable._is_instance_store(str(tmp_path / "0:99"))


@pytest.mark.parametrize(("disk", "own", "refused"), [
    ("root disk", False, True), ("root disk", True, False), ("", False, False),
])  # fmt: skip
def test_the_ssh_address_of_the_box_itself_is_no_durable_place(
    tmp_path, monkeypatch, disk, own, refused
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(durable, "on_own_disk", lambda path: disk)
    run = make(tmp_path, durable={"to": "me:keep/toy", "on_this_box": own})

    class Itself(place.Local):
        def read(self, path):
            return super().read(path.replace("me:", f"{tmp_path}/"))

        def write(self, path, data):
            super().write(path.replace("me:", f"{tmp_path}/"), data)

    why = durable.is_place(run, Itself(durable.Tools({}, lambda: None)))
    assert ("the durable place me:keep/toy is on this box's own root disk" in why) is refused
    other = make(tmp_path, durable={"to": "other:keep/toy", "on_this_box": False},
                 rendered={"run_dir": str(tmp_path / "run2")})  # fmt: skip
    away = Itself(durable.Tools({}, lambda: None))
    monkeypatch.setattr(place.Local, "read", lambda self, path: b'{"id": "another"}')
    assert durable.is_place(other, away) == ""


def test_a_place_that_can_t_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    run = make(tmp_path, durable={"to": str(tmp_path / "file/durable")})
    refusal = durable.check(run)[0]
    assert refusal.kind == "unwritable" and "can't write to the durable place" in refusal.reason


def test_the_checkpoints_of_another_run_are_not_written_over(tmp_path):
    fill(tmp_path, 10)
    with zipfile.ZipFile(tmp_path / "ckpt/step-10.pt", "w") as archive:
        archive.writestr("data", "complete")
    assert sync.worker(make(tmp_path, name="other"), "quick") == 0
    (tmp_path / "run/own/place.json").unlink()
    run = make(tmp_path, rendered={"run_dir": str(tmp_path / "run of toy")})
    assert "are of the run 'other'" in reasons(run)[0]
    assert sync.worker(run, "quick") != 0
    assert safe.look_safe(run).verified == "", "another run's checkpoint is no safe one of this"
    assert durable.check(make(tmp_path, name="other")) == []


@pytest.mark.parametrize(
    ("free", "held", "need"),
    [(250, 0, ""), (199, 0, "200.0 MB"), (101, 100, ""), (99, 100, "100.0 MB"), (50, 400, "100")],
)
def test_a_place_without_room_for_two_checkpoints_is_refused(
    tmp_path, monkeypatch, free, held, need
):
    run = make(tmp_path)
    assert reasons(run) == []
    monkeypatch.setattr(place.Local, "free", lambda *_: free * 10**6)
    assert reasons(run) == [], "nothing was rehearsed"
    run.folder.write(durable.MEASURED, json.dumps({"bytes": 100 * 10**6}))
    if held:
        there = os.path.join(
            generations.home(durable.address_of_checkpoints(run)), "gen-1-5-0123abcd"
        )
        os.makedirs(there)
        told = {"run": run.spec.name, "state": "complete", "size": held * 10**6, "files": {}}
        with open(os.path.join(there, generations.MANIFEST), "w") as file:
            json.dump(told, file)
    found = reasons(run)
    assert bool(found) is bool(need) and need in "".join(found)
    if need:
        assert f"has {free:.1f} MB free" in found[0]
        assert "a checkpoint took 100.0 MB in the rehearsal" in found[0]


def test_a_network_that_is_gone_refuses_no_run_but_a_missing_tool_does(tmp_path, monkeypatch):
    tool(tmp_path, "ssh", "#!/bin/sh\necho no route >&2\nexit 255\n", monkeypatch)
    run = make(tmp_path, durable={"to": "gpu:/kept"})
    assert durable.check(run) == [] and "no route" in events(run, "durable-silent")[0]["why"]
    assert "doesn't answer" in durable.is_place(run)
    monkeypatch.setenv("PATH", str(tmp_path))
    for to, name in {
        "gpu:/kept": "ssh",
        "rclone:a:b": "rclone",
        "s3://b": "aws",
        "gs://b": "gcloud",
    }.items():
        assert f"{name} is missing on this box" in reasons(make(tmp_path, durable={"to": to}))


def test_a_folder_that_hangs_is_given_up(tmp_path, monkeypatch):
    run = make(tmp_path)
    monkeypatch.setattr(durable, "LIMIT", 0.2)
    monkeypatch.setattr(durable, "on_own_disk", lambda path: "")
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.setattr(durable, "_look", lambda *_: open(tmp_path / "fifo").read())  # noqa: SIM115
    refusal = durable.check(run)[0]
    assert refusal.kind == "unwritable" and "no answer within 0.2 s" in refusal.reason


@pytest.mark.parametrize(
    ("to", "item", "there"),
    [
        ("rclone:keep:runs/a", "ckpt", "rclone:keep:runs/a/ckpt"),
        ("s3://bucket/", "out/x.bin", "s3://bucket/out/x.bin"),
        ("gpu:~/kept", ".", "gpu:~/kept"),
        ("/mnt/x", "../../etc/a b", "/mnt/x/a b"),
    ],
)
def test_where_an_item_goes(tmp_path, to, item, there):
    (tmp_path / "work/sub").mkdir(parents=True)
    run = make(
        tmp_path, durable={"to": to, "what": [item]}, rendered={"work_dir": str(tmp_path / "work")}
    )
    if item.startswith(("ckpt", "out")):
        (tmp_path / "work" / item).parent.mkdir(exist_ok=True)
        (tmp_path / "work" / item).write_text("")
    assert durable.items(run)[0].there == there
