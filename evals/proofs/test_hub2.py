"""HUB2: the old switch only prints a warning, is not read by anything, and the new one must be set before the import."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from check_code import span

hub = pytest.importorskip("huggingface_hub")
OLD, NEW = "HF_HUB_ENABLE_HF_TRANSFER", "HF_XET_HIGH_PERFORMANCE"


def stderr(code: str, *flags, **variables) -> str:
    env = {
        k: v for k, v in os.environ.items() if not k.startswith(("HF_", "PYTHONWARNINGS"))
    } | variables
    out = subprocess.run(
        [sys.executable, *flags, "-c", code], env=env, capture_output=True, text=True
    )
    assert out.returncode == 0, out.stderr
    return out.stdout + out.stderr


def test_the_old_switch_alone_warns(says):
    says("HUB2", stderr("import huggingface_hub.constants", **{OLD: "1"}))


def test_with_the_new_switch_nothing_is_said_and_the_mode_is_on():
    code = "from huggingface_hub import constants as c; print(c.HF_XET_HIGH_PERFORMANCE)"
    assert stderr(code, **{OLD: "1", NEW: "1"}).split() == ["True"]
    assert stderr(code).split() == ["False"]


def test_a_switch_set_after_the_import_changes_nothing():
    late = f"from huggingface_hub import constants as c; import os; os.environ['{NEW}'] = '1'; print(c.HF_XET_HIGH_PERFORMANCE)"
    assert stderr(late).split() == ["False"]


def test_nothing_else_in_the_library_reads_the_old_switch_or_the_old_package():
    folder = Path(hub.__file__).parent
    using = {
        f.name
        for f in folder.rglob("*.py")
        if re.search(f"{OLD}|import hf_transfer", f.read_text(encoding="utf-8"))
    }
    assert using == {"constants.py"}


def test_a_plain_download_names_the_missing_package(monkeypatch, tmp_path, caplog):
    """Without hf_xet the file comes over plain HTTP, and one line says so: information, by which nothing is looked up."""
    from huggingface_hub import file_download

    monkeypatch.setattr(file_download, "is_xet_available", lambda: False)
    monkeypatch.setattr(file_download, "http_get", lambda url, f, **_: f.write(b"weights"))
    monkeypatch.setattr(hub.constants, "HF_HUB_DISABLE_XET", False)
    # the library's logger keeps its lines to itself
    monkeypatch.setattr(
        file_download.logger, "warning", lambda text, *_: caplog.records.append(text)
    )
    file_download._download_to_tmp_and_move(
        incomplete_path=tmp_path / "a.incomplete", destination_path=tmp_path / "a", url_to_download="https://example.com/a",
        headers={}, expected_size=7, filename="a", force_download=False, etag="e", xet_file_data=object(), tqdm_class=None,
    )  # fmt: skip
    assert (tmp_path / "a").read_bytes() == b"weights"
    assert "'hf_xet' package is not installed. Falling back to regular HTTP download" in "\n".join(
        caplog.records
    )


def told(**variables) -> dict[str, str]:
    """What the Check prints: the variables, and what the library's own `hf env` says."""
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    env = {k: v for k, v in os.environ.items() if not k.startswith("HF_")} | {"PATH": path}
    code = span("HUB2", "hf env")
    said = subprocess.run(["bash", "-c", code], env=env | variables, capture_output=True, text=True)
    lines = [re.split(r": |=", line.strip("- "), maxsplit=1) for line in said.stdout.splitlines()]
    return {line[0]: line[1] for line in lines if len(line) == 2}


def test_the_check_shows_the_old_switch_that_is_set_and_the_new_one_that_is_not():
    old = told(**{OLD: "1"})
    assert old[OLD] == "1" and old[NEW] == "False"
    assert int(old["huggingface_hub version"].split(".")[0]) >= 1
    new = told(**{NEW: "1"})
    assert OLD not in new and new[NEW] == "True"
    assert told(HF_HUB_DISABLE_XET="1")["HF_HUB_DISABLE_XET"] == "True"
    assert new["HF_HUB_DISABLE_XET"] == "False"
