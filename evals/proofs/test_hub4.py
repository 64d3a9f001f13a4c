"""HUB4: offline look-ups in a small made-up cache: what makes a file count as missing, and what brings it back."""

import json
import os
import shutil
import subprocess
import sys

import pytest

hub = pytest.importorskip("huggingface_hub")
transformers = pytest.importorskip("transformers")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "models--org--tiny"
FILES = {
    "config.json": json.dumps({"model_type": "bert", "hidden_size": 8}),
    "tokenizer_config.json": "{}",
}


@pytest.fixture
def home(tmp_path):
    """A cache as `hf download` leaves it: blobs, links to them in snapshots, the branch's commit in refs."""
    repo = tmp_path / "hf" / "hub" / NAME
    for folder in ("blobs", "refs", f"snapshots/{COMMIT}", "trees"):
        (repo / folder).mkdir(parents=True)
    (repo / "refs" / "main").write_text(COMMIT)
    for number, (file, text) in enumerate(FILES.items()):
        (repo / "blobs" / f"{number:040x}").write_text(text)
        (repo / "snapshots" / COMMIT / file).symlink_to(f"../../blobs/{number:040x}")
    return tmp_path / "hf"


@pytest.fixture
def at(monkeypatch):
    """at(home): from now on this process is offline, with that home."""

    def move(home) -> None:
        monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
        monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(home / "hub"))

    return move


def one_file(name="config.json"):
    return hub.hf_hub_download("org/tiny", name)


def whole(**kwargs):
    return hub.snapshot_download("org/tiny", **kwargs)


def config(name="org/tiny"):
    return transformers.AutoConfig.from_pretrained(name).hidden_size


def error(call, *args, **kwargs) -> str:
    with pytest.raises(OSError) as caught:
        call(*args, **kwargs)
    return f"{type(caught.value).__name__}: {caught.value}"


def repo(home):
    return home / "hub" / NAME


def test_a_whole_copy_with_its_links_is_found(home, tmp_path, at):
    at(shutil.copytree(home, tmp_path / "node", symlinks=True))  # what rsync -a does
    assert config() == 8
    assert whole().endswith(COMMIT)


def test_another_home_finds_nothing(home, tmp_path, at, says):
    at(tmp_path / "empty")
    for call in (whole, one_file, config):
        says("HUB4", error(call))
    says("HUB4", error(whole, local_files_only=True))
    at(home)
    assert config() == 8


def test_links_whose_blobs_stayed_behind(home, tmp_path, at, says):
    copy = shutil.copytree(home, tmp_path / "node", symlinks=True)
    shutil.rmtree(repo(copy) / "blobs")  # only the snapshot was taken along
    at(copy)
    for call in (one_file, config):
        says("HUB4", error(call))
    shutil.copytree(repo(home) / "blobs", repo(copy) / "blobs")
    assert config() == 8


@pytest.mark.parametrize("ref", [None, "f" * 40, COMMIT + "\n"])
def test_refs_lost_of_another_commit_or_written_by_hand(home, at, ref, says):
    main = repo(home) / "refs" / "main"
    main.unlink()
    if ref:
        main.write_text(ref)
    at(home)
    for call in (whole, one_file):
        says("HUB4", error(call))
    assert whole(revision=COMMIT)  # the commit itself needs no ref
    main.write_text(COMMIT)  # without a line end
    assert config() == 8


def test_one_file_that_was_never_fetched(home, at, says):
    (repo(home) / "snapshots" / COMMIT / "config.json").unlink()
    at(home)
    says("HUB4", error(config))
    assert one_file("tokenizer_config.json")


def test_weights_in_the_store_that_all_repositories_share(home, tmp_path, at, says):
    """Newer versions keep large files in hub/blobs; the blob of the repository is a link to it."""
    shared = pytest.importorskip("huggingface_hub.utils._shared_blobs")
    key = "ab" * 32
    blob = repo(home) / "blobs" / ("c" * 64)
    blob.write_bytes(b"weights")
    (repo(home) / "snapshots" / COMMIT / "model.safetensors").symlink_to(f"../../blobs/{blob.name}")
    assert shared.publish_blob_to_shared_store(
        blob_path=str(blob),
        xet_hash=key,
        cache_dir=str(home / "hub"),
        expected_size=7,
        replace_existing=False,
    )
    assert blob.is_symlink() and blob.resolve() == (home / "hub" / "blobs" / "ab" / key).resolve()
    one = tmp_path / "one"
    shutil.copytree(repo(home), repo(one), symlinks=True)  # rsync -a of the model's folder alone
    at(one)
    assert config() == 8
    says("HUB4", error(one_file, "model.safetensors"))
    at(shutil.copytree(home, tmp_path / "all", symlinks=True))  # of the whole home
    assert one_file("model.safetensors")


def test_a_listing_that_names_more_files_than_there_are(home, at, says):
    """Since 1.22 a snapshot made with --include is incomplete for a call that asks for everything."""
    files = {name: {"size": 2, "blob_id": "a" * 40} for name in [*FILES, "README.md"]}
    (repo(home) / "trees" / f"{COMMIT}.json").write_text(
        json.dumps({"format_version": 1, "files": files})
    )
    at(home)
    says("HUB4", error(whole))
    says("HUB4", error(whole, local_files_only=True))
    assert whole(allow_patterns="*.json")
    assert config() == 8


def test_a_home_set_after_the_import_is_not_read(home, tmp_path):
    importing = "from huggingface_hub import hf_hub_download; "
    setting = f"import os; os.environ['HF_HOME'] = {str(home)!r}; "
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGINGFACE"))}
    env |= {"HF_HOME": str(tmp_path / "empty"), "HF_HUB_OFFLINE": "1"}
    for code, found in ((importing + setting, False), (setting + importing, True)):
        code += "hf_hub_download('org/tiny', 'config.json')"
        out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
        assert (out.returncode == 0) == found, out.stderr


def test_a_plain_folder_needs_no_cache(home, tmp_path, at):
    plain = shutil.copytree(
        repo(home) / "snapshots" / COMMIT, tmp_path / "tiny"
    )  # real files, as --local-dir makes them
    at(tmp_path / "empty")
    assert config(str(plain)) == 8


@pytest.mark.parametrize(
    "spoil",
    [
        None,
        lambda repo: shutil.rmtree(repo / "blobs"),
        lambda repo: (repo / "refs" / "main").unlink(),
        lambda repo: (repo / "refs" / "main").write_text("f" * 40),
        lambda repo: (repo / "refs" / "main").write_text(COMMIT + "\n"),
        lambda repo: (repo / "snapshots" / COMMIT / "config.json").unlink(),
    ],
)
def test_the_check_is_healthy_only_for_a_whole_copy(home, shell_of, spoil):
    if spoil:
        spoil(repo(home))
    code = shell_of("HUB4", "refs/main").replace("ORG--NAME", "org--tiny")
    shown = subprocess.run(
        ["bash", "-c", code], cwd=home / "hub", capture_output=True, text=True
    ).stdout.split()
    assert (shown == ["40", *(f"./{name}" for name in sorted(FILES))]) == (spoil is None)
