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


def test_a_branch_of_folders_without_a_card_loads_one_subset_by_its_folder_only(repository):
    """The layout of the branch with the Parquet copy: CONFIG/SPLIT/0000.parquet."""
    copy = repository.parent / "copy"
    for number, subset in enumerate(("one", "two"), 1):
        (copy / subset / "train").mkdir(parents=True)
        rows = datasets.Dataset.from_dict({"a": [number] * number})
        rows.to_parquet(copy / subset / "train" / "0000.parquet")
    for number, subset in enumerate(("one", "two"), 1):
        loaded = datasets.load_dataset(str(copy), data_dir=subset, split="train")
        assert loaded["a"][:] == [number] * number
    assert len(datasets.load_dataset(str(copy), split="train")) == 3  # all subsets as one
    with pytest.raises(ValueError, match="BuilderConfig 'one' not found. Available: .'default'."):
        datasets.load_dataset(str(copy), "one", split="train")
