"""Complete, corrupt or unknown: on real files of every kind, cut wherever a save may be cut."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import completeness
from remote_gpu_trainer.runner.completeness import COMPLETE, CORRUPT, UNKNOWN, judge_path

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")


def _torch(path: Path, old: bool) -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "half": torch.ones(3).half(), "o": optimizer.state_dict()}
    torch.save(state, path, _use_new_zipfile_serialization=not old)


def _safetensors(path: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [40], "data_offsets": [0, 160]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\1" * 160)


def _pickle(path: Path, protocol: int) -> None:
    value = {"a": np.arange(50.0), "b": "text" * 30, "c": [1.5, None, True, 2**70, b"x" * 5000]}
    path.write_bytes(pickle.dumps(value, protocol))


MAKE = {
    "new.pt": lambda path: _torch(path, False),
    "old.pt": lambda path: _torch(path, True),
    "module.pt": lambda path: torch.save(
        torch.nn.Linear(3, 3), path, _use_new_zipfile_serialization=False
    ),
    "s.safetensors": _safetensors,
    "a.npz": lambda path: np.savez(path, x=np.arange(30.0)),
    "c.npz": lambda path: np.savez_compressed(path, x=np.arange(300)),
    "a.npy": lambda path: np.save(path, np.arange(30.0)),
    "p2.pkl": lambda path: _pickle(path, 2),
    "p4.pkl": lambda path: _pickle(path, 4),
    "p5.pkl": lambda path: _pickle(path, 5),
    "s.json": lambda path: path.write_text(json.dumps({"global_step": 5})),
}


@pytest.mark.parametrize("name", MAKE)
def test_a_real_file_is_complete_and_no_beginning_of_it_is(tmp_path, name):
    MAKE[name](tmp_path / name)
    assert judge_path(str(tmp_path / name)) == (COMPLETE, "")
    whole, cut = (tmp_path / name).read_bytes(), tmp_path / f"cut{Path(name).suffix}"
    places = range(len(whole)) if len(whole) < 3000 else range(0, len(whole), 13)
    for length in {*places, *range(len(whole) - 100, len(whole))}:
        cut.write_bytes(whole[:length])
        assert judge_path(str(cut)).state != COMPLETE, length
    cut.write_bytes(b"\0" * len(whole))
    assert judge_path(str(cut)).state == CORRUPT


def test_a_large_file_is_judged_by_its_structure_alone(tmp_path):
    path = tmp_path / "large.safetensors"
    size = 40 << 30
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, path.stat().st_size + size)
    assert judge_path(str(path)) == (COMPLETE, "")
    os.truncate(path, path.stat().st_size - 1)
    assert judge_path(str(path)).state == CORRUPT


def test_checksums_are_compared_where_there_are_some(tmp_path):
    path = tmp_path / "a.pt"
    _torch(path, False)
    assert completeness.digest(str(path), lambda: None)[1] == ""
    with zipfile.ZipFile(path) as archive:
        member = max(archive.infolist(), key=lambda member: member.file_size)
    data = bytearray(path.read_bytes())
    at = member.header_offset + 30 + len(member.filename)
    at = data.index(bytes(zipfile.ZipFile(path).read(member)), at) + 3
    data[at] ^= 1
    path.write_bytes(data)
    assert judge_path(str(path)).state == COMPLETE, "its structure is sound"
    assert "checksum of" in completeness.digest(str(path), lambda: None)[1]


def test_an_absent_checksum_is_no_corruption(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        _torch(tmp_path / "a.pt", False)
    finally:
        torch.serialization.set_crc32_options(True)
    assert judge_path(str(tmp_path / "a.pt")).state == COMPLETE
    assert completeness.digest(str(tmp_path / "a.pt"), lambda: None)[1] == ""


@pytest.mark.parametrize("name", ["a.h5", "a.msgpack", "a.tar", "a.pt", "a.anything"])
def test_what_has_no_proof_is_unknown(tmp_path, name):
    (tmp_path / name).write_bytes(b"something" * 100)
    assert judge_path(str(tmp_path / name)).state == UNKNOWN
    (tmp_path / name).write_bytes(b"")
    assert judge_path(str(tmp_path / name)).state == CORRUPT


def _folder(folder: Path, *names: str) -> str:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        if name.endswith(".json"):
            (folder / name).write_text("{}")
        elif name.endswith(".safetensors"):
            _safetensors(folder / name)
        else:
            np.savez(folder / "x.npz", x=np.arange(3))
            (folder / "x.npz").rename(folder / name)
    return str(folder)


@pytest.mark.parametrize(
    ("form", "numbers", "missing"),
    [
        ("shard-{}-of-4.npz", range(4), ""),
        ("shard-{}-of-12.npz", range(12), ""),
        ("shard-{}-of-12.npz", range(1, 13), ""),
        ("model-{:05}-of-00003.npz", (1, 2, 3), ""),
        ("shard-{}-of-4.npz", (0, 1, 3), "shard-2-of-4.npz"),
        ("shard-{}-of-4.npz", (0, 1, 2), "shard-3-of-4.npz"),
        ("model-{:05}-of-00003.npz", (1, 2), "model-00003-of-00003.npz"),
        ("model-{:05}-of-00003.npz", (2, 3), "model-00001-of-00003.npz"),
    ],
)
def test_shards_are_counted_from_0_or_from_1(tmp_path, form, numbers, missing):
    folder = _folder(tmp_path / "step-10", *map(form.format, numbers))
    told = (CORRUPT, f"{missing} is missing") if missing else (COMPLETE, "")
    assert judge_path(folder)[:2] == told


def test_the_marker_of_a_framework_decides(tmp_path):
    hf = _folder(
        tmp_path / "checkpoint-5", "model.safetensors", "training_args.bin", "optimizer.pt"
    )
    assert judge_path(hf) == (CORRUPT, "trainer_state.json is missing")
    (tmp_path / "checkpoint-5/trainer_state.json").write_text('{"global')
    assert judge_path(hf).state == CORRUPT
    (tmp_path / "checkpoint-5/trainer_state.json").write_text("")  # a disk that was full
    assert judge_path(hf) == (CORRUPT, "trainer_state.json: empty")
    (tmp_path / "checkpoint-5/trainer_state.json").write_text('{"global_step": 5}')
    assert judge_path(hf).state == COMPLETE
    (tmp_path / "checkpoint-5/merges.txt").write_text("")  # of a tokenizer without merges
    assert judge_path(hf).state == COMPLETE
    (tmp_path / "checkpoint-5/checkpoint-is-incomplete.txt").write_text("")
    assert judge_path(hf).state == CORRUPT
    shard = _folder(tmp_path / "s", "model-00001-of-00002.safetensors", "config.json")
    assert judge_path(shard) == (CORRUPT, "model-00002-of-00002.safetensors is missing")
    _folder(tmp_path / "s", "model-00002-of-00002.safetensors")
    assert judge_path(shard).state == COMPLETE
    nemo = _folder(tmp_path / "n", "a-last.ckpt") + "/a-last.ckpt"
    (tmp_path / "n/a-last.ckpt-unfinished").write_text("")
    assert judge_path(nemo).state == CORRUPT
    assert judge_path(_folder(tmp_path / "empty")) == (CORRUPT, "empty folder")


@pytest.mark.parametrize(
    ("tracker", "first", "second", "text"),
    [
        ("latest", "global_step5", "global_step10", "global_step{}"),
        ("latest_checkpointed_iteration.txt", "iter_0000005", "iter_0000010", "{}"),
    ],
)
def test_a_folder_that_the_tracker_does_not_name_yet_is_not_complete(
    tmp_path, tracker, first, second, text
):
    old, new = (_folder(tmp_path / name, "a.pt") for name in (first, second))
    (tmp_path / tracker).write_text(text.format(5))
    assert (judge_path(old).state, judge_path(new).state) == (COMPLETE, CORRUPT)
    (tmp_path / tracker).write_text(text.format(10))
    assert (judge_path(old).state, judge_path(new).state) == (COMPLETE, COMPLETE)


def test_a_folder_of_dcp_is_judged_by_its_metadata(tmp_path):
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    dcp.save({"a": torch.arange(3000.0), "b": {"c": torch.ones(4)}}, checkpoint_id=tmp_path / "d")
    assert judge_path(str(tmp_path / "d")).state == COMPLETE
    [data] = (tmp_path / "d").glob("*.distcp")
    os.truncate(data, data.stat().st_size - 1)
    assert judge_path(str(tmp_path / "d")).state == CORRUPT
    (tmp_path / "d/.metadata").unlink()
    assert judge_path(str(tmp_path / "d")) == (CORRUPT, ".metadata is missing")


def test_nothing_of_a_file_is_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "boom"),)

    _folder(tmp_path / "d", "a.distcp")
    (tmp_path / "d/.metadata").write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(Bomb()))
    judge_path(str(tmp_path / "d"))
    assert judge_path(str(tmp_path / "a.pkl")).state == COMPLETE
    assert not (tmp_path / "boom").exists()
