"""rclone, and the tools of buckets: what they are asked, and what counts as compared."""

import hashlib
import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import durable, fetch, sync
from remote_gpu_trainer.runner.context import Run

from tests.conftest import engine
from tests.runner.copying import events, fill, kept, kept_steps, make, rows, same_size, tool

# A bucket in a folder. As S3 does, it names the MD5 of what came in one part, and the MD5 of the
# MD5s of the parts; `kms` makes its sums useless. As aws does, sync goes by size and time.
AWS = """\
import fnmatch, hashlib, json, os, shutil, sys
from pathlib import Path
root, words = Path(BUCKETS), sys.argv[1:]
part = 8 << 20
def path(url): return root / url[5:] if url.startswith("s3://") else Path(url)
def etag(file):
    data = file.read_bytes()
    if (root / "kms").exists(): return hashlib.sha1(data).hexdigest()[:32]
    if len(data) < part: return hashlib.md5(data).hexdigest()
    parts = [hashlib.md5(data[n:n + part]).digest() for n in range(0, len(data), part)]
    return hashlib.md5(b"".join(parts)).hexdigest() + "-" + str(len(parts))
with open(root / "calls", "a") as calls: calls.write(json.dumps(words) + "\\n")
if (root / "down").exists(): sys.exit("Could not connect to the endpoint URL")
if words[:2] == ["s3", "cp"]:
    source, target = words[2:4]
    if source != "-" and not path(source).exists():
        sys.exit("fatal error: An error occurred (404) when calling the HeadObject operation: Not Found")
    data = sys.stdin.buffer.read() if source == "-" else path(source).read_bytes()
    if target == "-":
        sys.stdout.buffer.write(data)
    else:
        path(target).parent.mkdir(parents=True, exist_ok=True)
        path(target).write_bytes(data)
elif words[:2] == ["s3", "rm"] and "--recursive" in words:
    bucket, _, prefix = words[2][5:].partition("/")
    for file in list((root / bucket).rglob("*")):  # by the beginning of the key, as S3 does
        if file.is_file() and str(file.relative_to(root / bucket)).startswith(prefix): file.unlink()
elif words[:2] == ["s3", "sync"]:
    source, target = map(path, words[2:4])
    rules = [(words[n], words[n + 1]) for n in range(len(words)) if words[n] in ("--include", "--exclude")]
    for file in sorted(source.rglob("*")):
        name, take = str(file.relative_to(source)), True
        for kind, pattern in rules:
            if fnmatch.fnmatchcase(name, pattern): take = kind == "--include"
        far = target / name
        if not file.is_file() or not take: continue
        if far.exists() and far.stat().st_size == file.stat().st_size and far.stat().st_mtime >= file.stat().st_mtime:
            continue
        far.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, far)
elif words[:2] == ["s3api", "list-objects-v2"]:
    bucket, prefix = words[words.index("--bucket") + 1], words[words.index("--prefix") + 1]
    rows = []
    for file in (root / bucket).rglob("*"):
        key = str(file.relative_to(root / bucket))
        if file.is_file() and key.startswith(prefix): rows.append([key, file.stat().st_size, f'"{etag(file)}"'])
    print(json.dumps(rows or None))
else:
    sys.exit(2)
"""


@pytest.fixture
def buckets(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "buckets"
    folder.mkdir()
    tool(
        tmp_path,
        "aws",
        f"#!{sys.executable}\n{AWS.replace('BUCKETS', repr(str(folder)))}",
        monkeypatch,
    )
    return folder


def once(run: Run) -> bool:
    return sync.worker(run, "whole") == 0


def why(run: Run) -> str:
    return run.folder.json("own/last-sync").get("why", "")


def test_a_bucket_of_s3_is_compared_by_its_sums(tmp_path, buckets):
    name = "a [1], it's *.bin"
    run = make(
        tmp_path, durable={"to": "s3://bucket/runs/a b", "what": [str(tmp_path / "ckpt"), name]}
    )
    fill(tmp_path, 10, 20)
    with zipfile.ZipFile(tmp_path / "ckpt/large.pt", "w") as archive:
        archive.writestr("data", os.urandom(9 << 20))
    (tmp_path / "run" / name).write_bytes(b"the end" * 100)
    (tmp_path / "run/a [1], it's not.bin").write_bytes(b"not asked for")
    assert durable.check(run) == [] and once(run), rows(run)
    there = buckets / "bucket/runs/a b"
    assert (there / name).read_bytes() == b"the end" * 100 and not (
        there / "a [1], it's not.bin"
    ).exists()
    assert kept_steps(there, "ckpt.generations") == [10, 20]
    for changed in ("step-20.pt", "large.pt"):
        copy = kept(there, changed, "ckpt.generations")
        right = same_size(copy)
        assert once(run) and copy.read_bytes() == right


def test_a_bucket_whose_sums_say_nothing_is_compared_by_a_download(tmp_path, buckets):
    (buckets / "kms").touch()
    run = make(tmp_path, durable={"to": "s3://bucket"})
    fill(tmp_path, 10)
    assert once(run)
    copy = kept(buckets, "step-10.pt", "bucket/ckpt.generations")
    right = same_size(copy)
    assert once(run) and copy.read_bytes() == right


def drops_the_oldest(tmp_path: Path, run: Run, home: str) -> None:
    """Copy three checkpoints; the place keeps two, and what only begins like the dropped one."""
    for step in (10, 20):
        fill(tmp_path, step)
        assert once(run), rows(run)
    oldest = kept(tmp_path, "step-10.pt", home).parents[1]
    beside = oldest.with_name(oldest.name + "0") / "mine.txt"
    beside.parent.mkdir()
    beside.write_text("of its user")
    (tmp_path / "ckpt/step-10.pt").unlink()  # as a program that keeps two
    fill(tmp_path, 30)
    assert once(run), rows(run)
    assert kept_steps(tmp_path, home) == [20, 30]
    assert not [path for path in oldest.rglob("*") if path.is_file()]
    assert beside.read_text() == "of its user"


def test_a_bucket_drops_the_oldest_generation_and_nothing_beside_it(tmp_path, buckets):
    run = make(tmp_path, durable={"to": "s3://bucket/x"})
    drops_the_oldest(tmp_path, run, "buckets/bucket/x/ckpt.generations")


def test_rclone_drops_the_oldest_generation_and_nothing_beside_it(tmp_path, monkeypatch):
    engine("rclone", "apt-get install -y --no-install-recommends rclone")
    run = make(tmp_path, durable={"to": f"rclone::local:{tmp_path}/there"})
    drops_the_oldest(tmp_path, run, "there/ckpt.generations")


def test_a_round_that_only_copies_to_a_bucket_is_not_called_verified(tmp_path, buckets):
    run = make(tmp_path, durable={"to": "s3://bucket"})
    fill(tmp_path, 10)
    assert sync.worker(run, "quick") == 0
    told = run.folder.json("own/last-sync")
    assert told["ok"] is True and told["verified"] is False


def test_a_bucket_that_does_not_answer_is_not_verified(tmp_path, buckets):
    run = make(tmp_path, durable={"to": "s3://bucket"})
    fill(tmp_path, 10)
    assert once(run)
    (buckets / "down").touch()
    assert not once(run) and "Could not connect" in why(run)
    run.folder.remove("own/place.json")
    assert durable.check(run) == [] and events(run, "durable-silent")


def test_checkpoints_come_back_from_a_bucket(tmp_path, buckets):
    run = make(
        tmp_path,
        durable={"to": "s3://bucket/x"},
        data=[{"from": "s3://bucket/x/nothing.tar", "to": "data"}],
    )
    assert fetch.restore(run, lambda: False) is None, "nothing is there yet"
    fill(tmp_path, 10, 20)
    assert sync.worker(run, "quick") == 0
    shutil.rmtree(tmp_path / "ckpt")
    assert fetch.restore(run, lambda: False) is None
    assert sorted(os.listdir(tmp_path / "ckpt")) == ["step-20.pt"]
    verdict = fetch.data(run, lambda: False)
    assert verdict and "no file came; name a folder" in verdict.reason


RECORD = """\
#!/bin/bash
printf '%s\\x1f' "${{0##*/}}" "$@" >>{0}/calls; echo >>{0}/calls
case $* in
  *' cat '* | 'cat '*) echo 'One or more URLs matched no objects.' >&2; exit 1 ;;
  *--dry-run* | *' -n '*) cat {0}/says; exit "$(<{0}/code)" ;;
esac
"""


def test_a_bucket_of_google_s_is_compared_by_its_own_tool(tmp_path, monkeypatch):
    where = "gs://bucket/runs/a b"
    tool(tmp_path, "gcloud", RECORD.format(tmp_path), monkeypatch)
    (tmp_path / "says").write_text("")
    (tmp_path / "code").write_text("0")
    run = make(tmp_path, durable={"to": where})
    fill(tmp_path, 10)
    run.folder.write("own/place.json", json.dumps({"to": "elsewhere", "id": "x"}))
    monkeypatch.setattr(durable, "is_place", lambda *_: "")
    assert once(run), rows(run)
    calls = [line.split("\x1f")[:-1] for line in (tmp_path / "calls").read_text().splitlines()]
    sent = [call for call in calls if call[2] == "rsync"]
    follows = ["gcloud", "storage", "rsync", "-r", "--no-ignore-symlinks"]
    assert all(call[:5] == follows for call in sent)
    assert sent[0][-1].startswith(f"{where}/ckpt.generations/gen-1-10-")
    assert sent[1][5:7] == ["--dry-run", "--checksums-only"] and sent[1][-1] == sent[0][-1]
    written = [call[-1] for call in calls if call[2] == "cp"]
    assert [name.rpartition("/")[2] for name in written[:3]] == [
        "copying.json", "manifest.json", "NEWEST",
    ], "the manifest comes last"  # fmt: skip
    (tmp_path / "says").write_text("Would copy file://x to gs://y\n")
    assert not once(run) and "differs at the destination" in why(run)
    (tmp_path / "says").write_text("no credentials\n")
    (tmp_path / "code").write_text("1")
    assert not once(run) and "no credentials" in why(run)


def test_rclone_is_compared_and_mended(tmp_path, monkeypatch):
    engine("rclone", "apt-get install -y --no-install-recommends rclone")
    there = tmp_path / "there"
    config = tmp_path / "rclone.conf"
    config.write_text(f"[keep]\ntype = alias\nremote = {there}\n")
    monkeypatch.setenv("RCLONE_CONFIG", str(config))
    name = "it's [1] {a,b} *.bin"
    fields = {"durable": {"to": "rclone:keep:runs/a b", "what": [str(tmp_path / "ckpt"), name]}}
    run = make(tmp_path, **fields)
    fill(tmp_path, 10, 40)
    (tmp_path / "run" / name).write_bytes(b"the end")
    (tmp_path / "run/it's [1] {a,b} other.bin").write_text("not asked for")
    (tmp_path / "elsewhere.txt").write_text("the best")
    (tmp_path / "ckpt/best.txt").symlink_to(tmp_path / "elsewhere.txt")
    assert durable.check(run) == [] and once(run), rows(run)
    there_ = there / "runs/a b"
    assert (there_ / name).read_bytes() == b"the end" and (
        there_ / "ckpt/best.txt"
    ).read_text() == "the best"
    assert not (there_ / "it's [1] {a,b} other.bin").exists()
    for copy in (kept(there_, "step-40.pt", "ckpt.generations"), there_ / name):
        right = same_size(copy)
        assert once(run) and copy.read_bytes() == right
    shutil.rmtree(tmp_path / "ckpt")
    assert fetch.restore(make(tmp_path, **fields), lambda: False) is None
    assert sorted(os.listdir(tmp_path / "ckpt")) == ["best.txt", "step-40.pt"]
    config.write_text(config.read_text().replace("alias", "nothing"))
    assert not once(run) and "doesn't answer" in why(run)


@pytest.mark.parametrize("size", [0, 1, 8 << 20, 17 << 20])
def test_the_sum_of_an_upload_in_parts(tmp_path, size):
    from remote_gpu_trainer.runner.copies.clouds import S3
    from remote_gpu_trainer.runner.copies.tool import Tools

    data = bytes(size)
    (tmp_path / "x").write_bytes(data)
    s3 = S3(Tools({}, lambda: None))
    for part in (8 << 20, 5 << 20):
        sums = [hashlib.md5(data[n : n + part]).digest() for n in range(0, size, part)] or [
            hashlib.md5(b"").digest()
        ]
        tag = (
            f"{hashlib.md5(b''.join(sums)).hexdigest()}-{len(sums)}"
            if size >= part
            else hashlib.md5(data).hexdigest()
        )
        known = size < min(part, 5 << 20) or part == 8 << 20
        assert (s3._tag(str(tmp_path / "x"), size) == tag) == known
