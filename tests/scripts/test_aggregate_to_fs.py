"""scripts/aggregate_to_fs.sh: finished cells of a roster, copied whole to durable storage, with their manifest."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT, engine

SCRIPT = ROOT / "scripts/aggregate_to_fs.sh"
VERIFY = ROOT / "scripts/verify_local.py"


class Place:
    def __init__(self, root):
        self.root, self.data, self.durable = root, root / "data", root / "durable"
        for folder in (self.data / "checkpoints", self.durable):
            folder.mkdir(parents=True)
        self.roster("a", "b")
        self.cell("a")
        self.cell("b")

    def roster(self, *names):
        (self.root / "roster.txt").write_text(
            "# cells of this run\r\n\n" + "".join(f"  {name} \r\n" for name in names)
        )

    def cell(self, name, weights=b"weights", metrics=b'{"acc": 1}'):
        folder = self.data / "checkpoints" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "best.pth").write_bytes(weights)
        (folder / "best_metrics.json").write_bytes(metrics)
        return folder

    def run(self, *args, **env):
        given = {
            "RUN_ID": "sweep7",
            "EXPECTED_ROSTER_FILE": self.root / "roster.txt",
            "DURABLE_DIR": self.durable,
            "DATA_DIR": self.data,
            "PY": sys.executable,
            **env,
        }
        clean = {
            name: value
            for name, value in os.environ.items()
            if name not in given and name != "RUN_DIR"
        }
        done = subprocess.run(
            ["bash", str(SCRIPT), *args],
            capture_output=True,
            text=True,
            env={**clean, **{k: str(v) for k, v in given.items() if v is not None}},
        )
        return done.returncode, done.stdout, done.stderr

    def tree(self):
        return {
            path.relative_to(self.durable).as_posix(): path.read_bytes()
            for path in sorted(self.durable.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_every_cell_of_the_roster_is_copied_and_the_manifest_verifies(place):
    folder = place.cell("a")
    (folder / "latest.pth").write_bytes(b"optimiser")
    (folder / "protocol").mkdir()
    (folder / "protocol/config.yaml").write_text("lr: 1")
    (place.data / "logs").mkdir()
    (place.data / "logs/a.log").write_text("step 1")
    place.cell("not-on-the-roster")
    code, out, err = place.run()
    assert code == 0, err
    assert sorted(place.tree()) == [
        "final_ckpts/PULL_MANIFEST.json",
        "final_ckpts/a/a.log",
        "final_ckpts/a/best.pth",
        "final_ckpts/a/best_metrics.json",
        "final_ckpts/a/protocol/config.yaml",
        "final_ckpts/b/best.pth",
        "final_ckpts/b/best_metrics.json",
    ]
    assert out.startswith("ok: 2 of 2 cells")
    assert "bytes and" in out and "inodes" in out
    final = place.durable / "final_ckpts"
    done = subprocess.run(
        [
            sys.executable,
            VERIFY,
            final,
            "--manifest",
            final / "PULL_MANIFEST.json",
            "--expect",
            "2",
            "--no-load",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_a_second_run_copies_nothing_and_writes_the_same_manifest(place):
    assert place.run()[0] == 0
    before = place.tree()
    when = (place.durable / "final_ckpts/a/best.pth").stat().st_mtime_ns
    code, out, _ = place.run("--json")
    answer = json.loads(out)
    assert (code, answer["verdict"], answer["copied"], answer["same"]) == (0, "ok", [], ["a", "b"])
    assert place.tree() == before
    assert (place.durable / "final_ckpts/a/best.pth").stat().st_mtime_ns == when
    assert answer["inodes"] == 8  # final_ckpts, two cells, two files each, the manifest
    assert answer["bytes"] > 0 and answer["free_bytes"] > 0


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (
            lambda folder: (folder / "best.pth").write_bytes(b""),
            "b isn't finished: an empty best.pth; ",
        ),
        (
            lambda folder: (folder / "best_metrics.json").rename(folder / "other.json"),
            "b isn't finished: no best_metrics.json; ",
        ),
        (lambda folder: folder.rename(folder.parent / "c"), "b isn't finished: no folder; "),
    ],
    ids=["empty weights", "no metrics", "no folder"],
)
def test_an_unfinished_cell_is_named_and_no_manifest_is_written(place, spoil, text):
    spoil(place.data / "checkpoints/b")
    code, out, err = place.run("--json")
    answer = json.loads(out)
    assert (code, answer["incomplete"], answer["copied"], answer["manifest"]) == (
        1,
        ["b"],
        ["a"],
        None,
    )
    assert text in err
    assert "final_ckpts/PULL_MANIFEST.json" not in place.tree()
    assert "final_ckpts/a/best.pth" in place.tree()


def test_cells_of_the_runner_need_its_done_marker(place):
    run_dir = place.root / "run"
    for name in ("a", "b"):
        cell = run_dir / "cells" / name
        (cell / "checkpoints").mkdir(parents=True)
        (cell / "log").mkdir()
        (cell / "checkpoints/best.pth").write_bytes(b"w")
        (cell / "best_metrics.json").write_text("{}")
        (cell / "log/train.log.0000").write_text("step 1\n")
    (run_dir / "cells/a/.done").write_text("{}")
    (run_dir / "cells/b/.failed").write_text("{}")
    code, _, err = place.run(RUN_DIR=run_dir, DATA_DIR=None)
    assert code == 1
    assert "b isn't finished: the marker .failed; finish it or take it off the roster" in err
    (run_dir / "cells/b/.failed").rename(run_dir / "cells/b/.done")
    assert place.run(RUN_DIR=run_dir, DATA_DIR=None)[0] == 0
    assert sorted(name for name in place.tree() if "/b/" in name) == [
        "final_ckpts/b/.done",
        "final_ckpts/b/best.pth",
        "final_ckpts/b/best_metrics.json",
        "final_ckpts/b/train.log.0000",
    ]


def test_the_runner_keeps_markers_in_one_place_and_checkpoints_in_another(place):
    run_dir = place.root / "run"
    for name in ("a", "b"):
        (run_dir / "cells" / name / "log").mkdir(parents=True)
        (run_dir / "cells" / name / "log/train.log.0000").write_text("step 1\n")
        (run_dir / "cells" / name / ".done").write_text("{}")
    assert place.run(RUN_DIR=run_dir)[0] == 0
    assert sorted(name for name in place.tree() if "/a/" in name) == [
        "final_ckpts/a/.done",
        "final_ckpts/a/best.pth",
        "final_ckpts/a/best_metrics.json",
        "final_ckpts/a/train.log.0000",
    ]
    (run_dir / "cells/b/.done").rename(run_dir / "cells/b/.preempted")
    assert place.run(RUN_DIR=run_dir)[0] == 1


def test_a_cell_of_which_only_the_runners_copy_failed_is_finished(place):
    for name, marker in (("a", ".done"), ("b", ".unsaved")):
        (place.root / "run/cells" / name).mkdir(parents=True)
        (place.root / "run/cells" / name / marker).write_text("{}")
    assert place.run(RUN_DIR=place.root / "run")[0] == 0
    assert "final_ckpts/b/.unsaved" in place.tree() and "final_ckpts/b/best.pth" in place.tree()


def test_two_files_of_weights_are_not_chosen_between(place):
    folder = place.data / "checkpoints/b"
    (folder / "1").mkdir()
    (folder / "2").mkdir()
    (folder / "best.pth").rename(folder / "1/best.pth")
    (folder / "2/best.pth").write_bytes(b"other")
    code, _, err = place.run()
    assert code == 1
    assert "b isn't finished: 2 files called best.pth; name one with its folder" in err


def test_a_copy_of_another_run_is_not_overwritten_until_asked_and_then_kept(place):
    assert place.run()[0] == 0
    place.cell("a", weights=b"of another run")
    code, _, err = place.run()
    assert code == 1
    assert "differs from this run's" in err
    assert place.tree()["final_ckpts/a/best.pth"] == b"weights"
    assert place.run("--replace")[0] == 0
    tree = place.tree()
    assert tree["final_ckpts/a/best.pth"] == b"of another run"
    [kept] = [
        name
        for name in tree
        if name.startswith("final_ckpts.before/a.") and name.endswith("best.pth")
    ]
    assert tree[kept] == b"weights"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tmpfs needs root")
def test_a_durable_disk_that_is_too_small_is_told_before_anything_is_copied(place):
    engine("mount", "apt-get install -y mount")
    place.cell("b", weights=b"x" * 3_000_000)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place.durable)], check=True
    )
    try:
        code, _, err = place.run()
        assert code == 1
        assert "KiB free, the copies need" in err and "; ask the user for more room" in err
        assert not any(name.endswith("best.pth") for name in place.tree())
    finally:
        subprocess.run(["umount", str(place.durable)], check=True)


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ({"RUN_ID": None}, "RUN_ID isn't set; see --help"),
        ({"DATA_DIR": None}, "neither RUN_DIR nor DATA_DIR is set; see --help"),
        (
            {"DURABLE_DIR": "/nowhere"},
            "no folder DURABLE_DIR=/nowhere; mount the durable storage",
        ),
        ({"EXPECTED_ROSTER_FILE": "/nowhere"}, "no file EXPECTED_ROSTER_FILE=/nowhere"),
        ({"PY": "no-such-python"}, "PY=no-such-python isn't installed; set PY to a Python 3"),
    ],
    ids=["no run", "no source", "storage not mounted", "no roster", "no Python"],
)
def test_what_is_missing_is_a_usage_error(place, env, text):
    code, out, err = place.run(**env)
    assert (code, out) == (2, "")
    assert text in err


@pytest.mark.parametrize("name", ["../a", "-n", "a b", "$(touch x)", "a;b", ".done"])
def test_an_odd_name_on_the_roster_is_refused(place, name):
    place.roster(name)
    code, _, err = place.run()
    assert code == 2
    assert "isn't a name of letters, digits and ._+=@,-; see --help" in err
    place.roster("a", "a")
    assert place.run()[0] == 2


def test_an_unknown_option_exits_2_and_help_0(place):
    assert place.run("--force")[0] == 2
    code, out, _ = place.run("--help")
    assert code == 0
    for text in ("usage:", "variables:", "exit:", "example:"):
        assert text in out
