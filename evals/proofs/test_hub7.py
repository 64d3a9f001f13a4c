"""HUB7: a loading script is refused whatever is asked for; the files that it read load without it."""

import json

import pytest

datasets = pytest.importorskip("datasets")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    folder = tmp_path / "poems"
    folder.mkdir()
    (folder / "train.jsonl").write_text(json.dumps({"a": 1}) + "\n")
    (folder / "poems.py").write_text("raise SystemExit('run')\n")
    return folder


@pytest.mark.parametrize("named", ["poems.py", ""])
@pytest.mark.parametrize("arguments", [{}, {"trust_remote_code": True}])
def test_a_script_is_refused_and_isnt_run(repository, says, named, arguments):
    with pytest.raises(RuntimeError) as error:
        datasets.load_dataset(str(repository / named), **arguments)
    says("HUB7", str(error.value))


def test_the_files_that_it_read_load_by_name(repository):
    rows = datasets.load_dataset("json", data_files=str(repository / "train.jsonl"), split="train")
    assert rows[0] == {"a": 1}


def test_a_script_of_another_name_is_no_loading_script(repository):
    (repository / "poems.py").rename(repository / "prepare.py")
    assert len(datasets.load_dataset(str(repository), split="train")) == 1
