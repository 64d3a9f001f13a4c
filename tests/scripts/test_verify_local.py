"""scripts/verify_local.py: pulled results are complete, unaltered and loadable, or there is no marker."""

import argparse
import hashlib
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPT = ROOT / "scripts/verify_local.py"
OLD_PYTHON = Path("/root/.pyenv/versions/3.8.18/bin/python3.8")
MARKER = "PULL_VERIFIED.json"

sys.path.insert(0, str(ROOT / "scripts"))
import verify_local  # noqa: E402


def run(*args, python=sys.executable, **env):
    done = subprocess.run(
        [str(python), str(SCRIPT), *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    )
    return done.returncode, done.stdout, done.stderr


def safetensors(path: Path, count: int = 4) -> None:
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}
    ).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4 * count))


def manifest(folder: Path, **change) -> Path:
    """A manifest of the folder as it is now."""
    rows = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.parent / path.name not in [
            folder / name for name in verify_local.OURS
        ]:
            data = path.read_bytes()
            rows.append(
                {
                    "path": path.relative_to(folder).as_posix(),
                    "bytes": len(data),
                    "sha256": hashlib.sha256(data).hexdigest(),
                }
            )
    out = folder / "PULL_MANIFEST.json"
    out.write_text(json.dumps({"schema": 1, "run_id": "sweep7", "files": rows, **change}))
    return out


@pytest.fixture
def pulled(tmp_path):
    """Two cells with weights and metrics."""
    for name in ("seed0", "seed1"):
        cell = tmp_path / "pulled" / name
        cell.mkdir(parents=True)
        safetensors(cell / "best.safetensors")
        (cell / "best_metrics.json").write_text('{"val": {"acc": 0.5}, "epoch": 3}')
    return tmp_path / "pulled"


def test_whole_results_get_a_marker_that_names_the_manifest(pulled):
    listing = manifest(pulled)
    code, out, err = run(pulled, "--manifest", listing, "--expect", 2)
    assert (code, err) == (0, "")
    assert out.startswith("verified: 2 cells, 4 files, ")
    proof = json.loads((pulled / MARKER).read_text())
    assert proof["manifest_sha256"] == hashlib.sha256(listing.read_bytes()).hexdigest()
    assert (proof["run_id"], proof["cells"], proof["loaded"]) == (
        "sweep7",
        ["seed0", "seed1"],
        True,
    )
    assert (
        run(pulled, "--manifest", listing)[0] == 0
    )  # a second time: the marker of the first is no extra file


def cut(pulled):
    path = pulled / "seed0/best.safetensors"
    path.write_bytes(path.read_bytes()[:-4])


def alter(pulled):
    path = pulled / "seed0/best.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def drop(pulled):
    (pulled / "seed1/best_metrics.json").rename(pulled.parent / "gone")


def add(pulled):
    (pulled / "seed1/other.txt").write_text("from elsewhere")


def link(pulled):
    drop(pulled)
    (pulled / "seed1/best_metrics.json").symlink_to(pulled.parent / "gone")


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (cut, "bytes", " bytes, expected "),
        (alter, "sha256", "pull it again with rsync --checksum"),
        (drop, "missing", "missing, expected "),
        (add, "extra", "a file that isn't listed"),
        (link, "link", ": a link, expected a plain file; "),
    ],
    ids=[
        "a cut file",
        "an altered byte",
        "a missing file",
        "a file besides",
        "a link in place of a file",
    ],
)
def test_results_that_differ_from_the_manifest_are_bad_and_lose_an_older_marker(
    pulled, change, kind, text
):
    listing = manifest(pulled)
    assert run(pulled, "--manifest", listing)[0] == 0
    change(pulled)
    code, out, err = run(pulled, "--manifest", listing, "--json")
    answer = json.loads(out)
    assert (code, answer["verdict"], answer["marker"]) == (1, "bad", None)
    assert [finding["kind"] for finding in answer["findings"]] == [kind]
    assert text in err
    assert not (pulled / MARKER).exists()
    assert (pulled / verify_local.OLD_MARKER).is_file()


@pytest.mark.parametrize(
    "path",
    [
        "../out.pt",
        "/etc/passwd",
        "a//b",
        "a/./b",
        "a\\b",
        "C:/b",
        "a\nb",
        "",
        "PULL_VERIFIED.json",
        None,
        7,
        "a/\ud800",
    ],
    ids=ascii,
)
def test_a_path_that_could_leave_the_folder_makes_the_manifest_bad(pulled, path):
    listing = manifest(pulled)
    data = json.loads(listing.read_text())
    data["files"].append({"path": path, "bytes": 1, "sha256": "0" * 64})
    listing.write_text(json.dumps(data))
    code, out, _ = run(pulled, "--manifest", listing, "--json")
    assert code == 1
    assert [finding["kind"] for finding in json.loads(out)["findings"]] == ["manifest"]
    assert not (pulled / MARKER).exists()


def test_a_path_listed_twice_makes_the_manifest_bad(pulled):
    listing = manifest(pulled)
    data = json.loads(listing.read_text())
    listing.write_text(json.dumps({**data, "files": data["files"] + data["files"][:1]}))
    assert run(pulled, "--manifest", listing)[0] == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "can't be read as JSON ("),
        ("[]", "its schema is 'list', not 1; "),
        ('{"schema": 2}', "its schema is 2, not 1; "),
        ('{"schema": 1, "files": []}', "run_id or files is missing; "),
        ("\xff", "can't be read as JSON ("),
    ],
    ids=["nothing", "a list", "another schema", "no run", "no UTF-8"],
)
def test_a_manifest_that_cannot_be_read_is_not_told_as_bad_results(pulled, text, says):
    listing = pulled.parent / "m.json"
    listing.write_bytes(text.encode("latin-1"))
    code, out, err = run(pulled, "--manifest", listing)
    assert (code, out) == (2, "")
    assert says in err


def test_without_a_manifest_nothing_is_verified(pulled):
    code, out, err = run(pulled)
    assert (code, out) == (2, "")
    assert (
        err
        == "verify_local: --manifest is missing; pass the list that was made on the box: nothing is verified without it (see --help)\n"
    )


def test_a_wrong_count_of_cells_is_bad_and_an_empty_manifest_too(pulled, tmp_path):
    assert run(pulled, "--manifest", manifest(pulled), "--expect", 3)[0] == 1
    (tmp_path / "empty").mkdir()
    listing = tmp_path / "m.json"
    listing.write_text('{"schema": 1, "run_id": "x", "files": []}')
    assert run(tmp_path / "empty", "--manifest", listing)[0] == 1
    assert run(tmp_path / "empty", "--manifest", listing, "--expect", 0)[0] == 1


def test_a_cell_of_the_roster_without_weights_is_bad(pulled):
    drop_to = pulled.parent / "gone"
    (pulled / "seed1/best.safetensors").rename(drop_to)
    assert run(pulled, "--manifest", manifest(pulled), "--expect", 2)[0] == 1
    code, out, _ = run(pulled, "--manifest", manifest(pulled, cells=["seed0", "seed1"]), "--json")
    assert code == 1
    assert [(finding["kind"], finding["path"]) for finding in json.loads(out)["findings"]] == [
        ("cells", "seed1")
    ]


def test_weights_directly_in_the_folder_are_a_cell_and_a_folder_of_logs_is_none(tmp_path):
    folder = tmp_path / "out"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs/train.log").write_text("step 1\n")
    safetensors(folder / "model.safetensors")
    code, out, _ = run(folder, "--manifest", manifest(folder), "--expect", 1)
    assert (code, out.split(",")[0]) == (0, "verified: 1 cells")


def test_results_without_weights_are_bad_unless_none_are_expected(tmp_path):
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval/metrics.json").write_text('{"acc": 1}')
    assert run(tmp_path, "--manifest", manifest(tmp_path))[0] == 1
    assert run(tmp_path, "--manifest", manifest(tmp_path), "--expect", 0)[0] == 0


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"short", "5 bytes"),
        (struct.pack("<Q", 10**12) + b"{}", "a header of 1000000000000 bytes"),
        (struct.pack("<Q", 2) + b"{{", "isn't JSON"),
        (struct.pack("<Q", 2) + b"{}", "no tensor data"),
    ],
    ids=["a few bytes", "a header longer than the file", "a header of other text", "no tensors"],
)
def test_a_broken_safetensors_file_is_bad_even_when_its_hash_fits(pulled, data, text):
    (pulled / "seed0/best.safetensors").write_bytes(data)
    code, _, err = run(pulled, "--manifest", manifest(pulled))
    assert code == 1
    assert text in err


def test_metrics_that_do_not_parse_are_bad(pulled):
    (pulled / "seed0/best_metrics.json").write_text('{"acc": 0.')
    code, _, err = run(pulled, "--manifest", manifest(pulled))
    assert code == 1
    assert "seed0/best_metrics.json" in err


def test_metrics_are_listed_by_cell_name_and_value(pulled):
    _, out, _ = run(pulled, "--manifest", manifest(pulled), "--list-metrics")
    assert out.splitlines()[:2] == ["seed0\tval.acc\t0.5", "seed0\tepoch\t3"]
    _, out, _ = run(pulled, "--manifest", manifest(pulled), "--list-metrics", "--json")
    assert json.loads(out)["metrics"]["seed1"] == {"val.acc": "0.5", "epoch": "3"}


# ---------------------------------------------------------------- torch


@pytest.fixture
def weights(pulled):
    """Saves a value as seed0's checkpoint in place of the safetensors file."""
    torch = pytest.importorskip("torch")

    def save(value, name="best.pth", **kw):
        torch.save(value, str(pulled / "seed0" / name), **kw)
        return pulled

    (pulled / "seed0/best.safetensors").rename(pulled.parent / "set-aside")
    return torch, save


def test_plain_weights_load_in_both_forms(weights):
    torch, save = weights
    save({"model": torch.ones(3)})
    folder = save({"model": torch.ones(3)}, "old.pt", _use_new_zipfile_serialization=False)
    assert run(folder, "--manifest", manifest(folder))[0] == 0
    assert json.loads((folder / MARKER).read_text())["torch"] == torch.__version__


def test_a_checkpoint_with_python_objects_is_unknown_until_pickle_is_allowed(weights):
    torch, save = weights
    folder = save({"model": torch.ones(3), "args": argparse.Namespace(lr=1)})
    code, out, err = run(folder, "--manifest", manifest(folder), "--json")
    assert (code, json.loads(out)["verdict"]) == (2, "unknown")
    assert "not loaded: Unsupported global: GLOBAL argparse.Namespace" in err
    assert not (folder / MARKER).exists()
    assert run(folder, "--manifest", manifest(folder), "--allow-pickle")[0] == 0


def test_a_checkpoint_that_runs_code_does_not_run_it(weights, tmp_path):
    torch, save = weights
    made = tmp_path / "made"

    class Runs:
        def __reduce__(self):
            return (os.mkdir, (str(made),))

    folder = save({"model": torch.ones(3), "x": Runs()})
    assert (
        run(folder, "--manifest", manifest(folder))[0] == 1
    )  # torch knows the module as one that runs commands
    assert not made.exists()


def test_random_states_beside_the_weights_cast_no_doubt_on_them(weights):
    torch, save = weights
    save({"model": torch.ones(3)})
    folder = save({"args": argparse.Namespace()}, "rng_state.pth")
    code, out, _ = run(folder, "--manifest", manifest(folder), "--json")
    assert code == 0
    assert json.loads(out)["findings"] == []
    rng = folder / "seed0/rng_state.pth"
    rng.write_bytes(rng.read_bytes()[:-40])
    assert run(folder, "--manifest", manifest(folder))[0] == 1, "a corrupt one does"


def test_a_checkpoint_without_a_tensor_is_bad(weights):
    _, save = weights
    folder = save({"epoch": 3})
    code, _, err = run(folder, "--manifest", manifest(folder))
    assert code == 1
    assert ": no weights (dict), expected at least one tensor" in err


def test_a_corrupt_checkpoint_is_bad_even_when_its_hash_fits(weights):
    torch, save = weights
    folder = save({"model": torch.ones(3000)})
    path = folder / "seed0/best.pth"
    path.write_bytes(path.read_bytes()[:-2000])
    for more in ([], ["--no-load"]):
        assert run(folder, "--manifest", manifest(folder), *more)[0] == 1
    path.write_bytes(b"<html>not found</html>" * 20)
    assert run(folder, "--manifest", manifest(folder))[0] == 1


# ---------------------------------------------------------------- without torch, old Python


def without_torch(tmp_path) -> str:
    (tmp_path / "no" / "torch").mkdir(parents=True)
    (tmp_path / "no" / "torch" / "__init__.py").write_text("raise ImportError('none here')")
    return str(tmp_path / "no")


def archive(path: Path, spoil: bool = False) -> None:
    """An archive of another program: only its checksums can be checked."""
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("archive/data", b"weights" * 100)
    if spoil:
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(bytes(data))


def test_archives_are_checked_by_crc_where_they_are_not_loaded(pulled, tmp_path):
    archive(pulled / "seed0/best.pth")
    place = without_torch(tmp_path)
    code, out, _ = run(pulled, "--manifest", manifest(pulled), "--no-load", PYTHONPATH=place)
    assert (code, out.rstrip().endswith("not loaded as asked")) == (0, True)
    assert json.loads((pulled / MARKER).read_text())["loaded"] is False
    archive(pulled / "seed0/best.pth", spoil=True)
    for more in ([], ["--no-load"]):
        code, _, err = run(pulled, "--manifest", manifest(pulled), *more, PYTHONPATH=place)
        assert code == 1
        assert "a wrong CRC" in err


def test_without_torch_whole_archives_are_verified_and_one_line_says_what_was_not_done(
    weights, tmp_path
):
    torch, save = weights
    shared = torch.ones(3)
    state = {"a": shared, "b": shared[1:], "half": torch.ones(5).half(), "n": torch.arange(4)}
    model = torch.nn.Linear(2, 2)
    values = [
        state, torch.optim.Adam(model.parameters()).state_dict() | state, model,
        {"args": argparse.Namespace(lr=1), **state}, {"bits": torch.ones(3, dtype=torch.bool)},
    ]  # fmt: skip
    for number, value in enumerate(values):
        folder = save(value, f"step_{number}.pt")
    code, out, err = run(
        folder, "--manifest", manifest(folder), "--json", PYTHONPATH=without_torch(tmp_path)
    )
    assert (code, json.loads(out)["loaded"]) == (0, False)
    assert err == (
        "verify_local: note: 5 checkpoints, first seed0/step_0.pt: not loaded, no torch here: "
        "whole archive, expected a checkpoint that loads; run this where torch is installed, if "
        "you want it loaded\n"
    )
    assert json.loads((folder / MARKER).read_text())["loaded"] is False


def test_without_torch_a_pickle_that_it_did_not_write_is_unknown(pulled, tmp_path):
    (pulled / "seed0/best.pth").write_bytes(pickle.dumps({"a": [1.0] * 3}))
    code, _, err = run(pulled, "--manifest", manifest(pulled), PYTHONPATH=without_torch(tmp_path))
    assert code == 2 and "not loaded, no torch here: unchecked pickle" in err


def test_without_torch_files_of_the_old_form_are_verified_too(weights, tmp_path):
    torch, save = weights
    shared = torch.ones(3)
    model = torch.nn.Linear(2, 2)
    for number, value in enumerate(
        [{"a": shared, "b": shared[1:], "half": torch.ones(5).half()}, model, model.state_dict()]
    ):
        name = f"step_{number}.pt"
        folder = save(value, name, _use_new_zipfile_serialization=False)
    (folder / "seed0/best.pth").unlink(missing_ok=True)
    code, _, err = run(folder, "--manifest", manifest(folder), PYTHONPATH=without_torch(tmp_path))
    assert code == 0 and err.count("\n") == 1
    assert "3 checkpoints, first seed0/step_0.pt: not loaded, no torch here: whole file" in err


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data[:-4], "bytes, its contents need"),
        (lambda data: data[:100], "a file that can't be read"),
        (lambda data: data + b"more", "bytes, its contents need"),
        (lambda data: data[:-20] + b"\4" + data[-19:], "of 4 elements, not 3"),
    ],
    ids=["cut in its data", "cut in its pickle", "more behind it", "another count"],
)
def test_without_torch_a_file_of_the_old_form_that_lacks_what_it_names_is_bad(
    weights, tmp_path, change, says
):
    torch, save = weights
    folder = save({"a": torch.ones(3)}, _use_new_zipfile_serialization=False)
    path = folder / "seed0/best.pth"
    path.write_bytes(change(path.read_bytes()))
    code, _, err = run(folder, "--manifest", manifest(folder), PYTHONPATH=without_torch(tmp_path))
    assert code == 1 and says in err


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda name, data: data[:-4] if name.endswith("data/0") else data, "of 8 bytes, not 12"),
        (lambda name, data: None if name.endswith("data/0") else data, "of 0 bytes, not 12"),
        (lambda name, data: data[:-9] if name.endswith(".pkl") else data, "pickle that can't be"),
    ],
)
def test_without_torch_an_archive_that_lacks_what_it_names_is_bad(weights, tmp_path, change, says):
    torch, save = weights
    folder = save({"a": torch.ones(3)})
    path = folder / "seed0/best.pth"
    with zipfile.ZipFile(path) as old:
        entries = {name: change(name, old.read(name)) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as new:
        for name, data in entries.items():
            if data is not None:
                new.writestr(name, data)
    place = without_torch(tmp_path)
    code, _, err = run(folder, "--manifest", manifest(folder), PYTHONPATH=place)
    assert code == 1 and says in err


def test_without_torch_a_checkpoint_without_a_tensor_is_bad_and_none_runs_its_code(
    weights, tmp_path
):
    torch, save = weights
    made = tmp_path / "made"

    class Runs:
        def __reduce__(self):
            return (os.mkdir, (str(made),))

    folder = save({"epoch": 3, "x": Runs()})
    place = without_torch(tmp_path)
    code, _, err = run(folder, "--manifest", manifest(folder), PYTHONPATH=place)
    assert code == 1 and "no weights in its archive" in err
    assert not made.exists()


# ---------------------------------------------------------------- the job's own form


@pytest.mark.parametrize("pattern", ["ckpt/step_*.json", "ckpt/*", "step_*"])
def test_checkpoints_of_the_jobs_own_form_are_checkpoints(tmp_path, pattern):
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt/step_5.json").write_text('{"w": [1, 2]}')
    listing = manifest(tmp_path)
    assert run(tmp_path, "--manifest", listing)[0] == 1
    code, out, _ = run(tmp_path, "--manifest", listing, "--checkpoints", pattern)
    assert (code, out.split(",")[0]) == (0, "verified: 1 cells")
    (tmp_path / "ckpt/step_5.json").write_text('{"w": [1, ')
    code, _, err = run(tmp_path, "--manifest", manifest(tmp_path), "--checkpoints", pattern)
    assert code == 1 and "not JSON" in err


def test_a_name_that_no_manifest_can_hold_may_be_there_when_it_is_named(pulled):
    listing = manifest(pulled)
    (pulled / "a\\b").write_text("x")
    assert run(pulled, "--manifest", listing)[0] == 1
    told = json.loads(listing.read_text())
    listing.write_text(json.dumps({**told, "checks": {"unlisted": ["a\\b"]}}))
    assert run(pulled, "--manifest", listing)[0] == 0


@pytest.mark.parametrize(
    "odd", [7, {"expect": True, "checkpoints": 7, "weights": 0, "unlisted": 7}]
)
def test_what_a_manifest_says_to_check_holds_unless_it_is_no_such_thing(tmp_path, odd):
    (tmp_path / "report.txt").write_text("well")
    listing = manifest(tmp_path)
    told = json.loads(listing.read_text())
    for checks, code in (({"weights": False}, 0), ({"expect": 0}, 0), ({"expect": 1}, 1), (odd, 1)):
        listing.write_text(json.dumps({**told, "checks": checks}))
        assert run(tmp_path, "--manifest", listing)[0] == code
    listing.write_text(json.dumps({**told, "checks": {"expect": 1}}))
    assert run(tmp_path, "--manifest", listing, "--expect", 0)[0] == 0, "the user's word counts"


@pytest.mark.skipif(not OLD_PYTHON.exists(), reason="Python 3.8 is not installed here")
def test_it_runs_on_python_3_8(pulled):
    code, out, err = run("--make", pulled, "-o", pulled / "PULL_MANIFEST.json", python=OLD_PYTHON)
    assert code == 0, err
    code, out, err = run(
        pulled, "--manifest", pulled / "PULL_MANIFEST.json", "--json", python=OLD_PYTHON
    )
    assert (code, json.loads(out)["verdict"], err) == (0, "ok", "")


# ---------------------------------------------------------------- --make


def test_a_made_manifest_is_the_same_bytes_again_and_verifies(pulled):
    out = pulled / "PULL_MANIFEST.json"
    code, said, _ = run("--make", pulled, "-o", out, "--run-id", "sweep7")
    assert (code, said.split(": ")[1].split(",")[0]) == (0, "4 files")
    first = out.read_bytes()
    assert run("--make", pulled, "-o", out, "--run-id", "sweep7")[0] == 0
    assert out.read_bytes() == first
    assert run(pulled, "--manifest", out)[0] == 0


def test_a_roster_limits_the_manifest_and_each_of_its_cells_must_be_there(pulled, tmp_path):
    roster = tmp_path / "roster.txt"
    roster.write_text("# cells\nseed0\n\n")
    out = tmp_path / "m.json"
    assert run("--make", pulled, "-o", out, "--roster", roster)[0] == 0
    made = json.loads(out.read_text())
    assert made["cells"] == ["seed0"]
    assert {row["path"].split("/")[0] for row in made["files"]} == {"seed0"}
    roster.write_text("seed0\nseed9\n")
    code, _, err = run("--make", pulled, "-o", out, "--roster", roster)
    assert code == 1
    assert ": no files of seed9; finish it or take it off the roster" in err
    assert json.loads(out.read_text()) == made


@pytest.mark.parametrize("name", ["../x", "-rf", "a b", "a/b", ".hidden", "x\nx"], ids=ascii)
def test_a_roster_with_an_odd_or_repeated_name_is_refused(pulled, tmp_path, name):
    roster = tmp_path / "roster.txt"
    roster.write_text(name + "\n")
    assert run("--make", pulled, "-o", tmp_path / "m.json", "--roster", roster)[0] == 2
    assert not (tmp_path / "m.json").exists()


def test_a_link_is_not_put_into_a_manifest(pulled, tmp_path):
    (pulled / "seed0/link").symlink_to("/etc/passwd")
    code, _, err = run("--make", pulled, "-o", tmp_path / "m.json")
    assert code == 1
    assert ": a link, expected a plain file with a safe name; move it away" in err


def test_help_has_usage_exit_codes_and_an_example():
    code, out, _ = run("--help")
    assert code == 0
    for text in ("usage:", "Exit 0:", "Exit 1:", "Exit 2:", "example:"):
        assert text in out


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
def test_a_marker_is_whole_and_on_the_disk_with_its_name_and_nothing_stays_open(
    tmp_path, monkeypatch
):
    synced, place = [], tmp_path / MARKER

    def sync(number: int) -> None:
        synced.append((os.path.isdir(f"/proc/self/fd/{number}"), place.exists()))

    monkeypatch.setattr(os, "fsync", sync)
    before = len(os.listdir("/proc/self/fd"))
    verify_local.write_atomically(place, {"files": 1})
    assert synced == [(False, False), (True, True)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert [path.name for path in tmp_path.iterdir()] == [MARKER]
    assert json.loads(place.read_text()) == {"files": 1}
