"""HUB10: files that don't make one table are refused with both errors; the entry's script tells them from those that do."""

import re
import subprocess
import sys
import traceback

import pytest
from check_code import in_shell, span
from remote_gpu_trainer.catalogue import bundle

datasets = pytest.importorskip("datasets")

REFUSED = {
    "a column more": ['{"a": 1}\n', '{"a": 1, "c": 2}\n'],
    "another type": ['{"a": 1}\n', '{"a": "x"}\n'],
    "a column that begins empty": ['{"a": null}\n', '{"a": "x"}\n'],
    "a line that isn't JSON": ['{"a": 1}\n{"a": \n{"a": 2}\n'],
    "another type within a column": ['{"a": {"x": 1}}\n', '{"a": {"x": "s"}}\n'],
    "a word after dates": ['{"a": "2024-01-01"}\n', '{"a": "x"}\n'],
}
LOADED = {
    "the same": ['{"a": 1, "b": "x"}\n', '{"a": 2, "b": "y"}\n'],
    "whole and broken numbers": ['{"a": 1}\n{"a": 1.5}\n'],
    "empty lines": ['{"a": 1}\n\n{"a": 2}\n\n'],
    "a byte order mark": ['\ufeff{"a": 1}\n', '{"a": 2}\n'],
    "types that differ within one file": ['{"a": 1}\n{"a": "x"}\n'],
    "one list": ['[{"a": 1}, {"a": 2}]\n'],
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()

    def write(texts):
        paths = [tmp_path / f"{number}.jsonl" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, encoding="utf-8")
        return [str(path) for path in paths]

    return write


def load(paths, **arguments):
    return datasets.load_dataset("json", data_files=paths, split="train", **arguments)


def script(paths) -> list[str]:
    [code] = re.findall(r"<<'EOF'\n(.*?)^EOF$", bundle.load().get("HUB10").check, re.S | re.M)
    done = subprocess.run(
        [sys.executable, "-", *paths], input=code, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_differ_are_refused_and_the_script_says_where(files, says, name):
    paths = files(REFUSED[name])
    with pytest.raises(Exception) as error:
        load(paths)
    whole = "".join(traceback.format_exception(error.value))
    says("HUB10", "\n".join(line for line in whole.splitlines() if "generating the" not in line))
    assert len(script(paths)) == 2


@pytest.mark.parametrize("name", LOADED)
def test_what_loads_is_one_table(files, name):
    paths = files(LOADED[name])
    assert len(load(paths)) == 2
    [line] = script(paths)
    changed = {"types that differ within one file": "Column(/a)", "one list": "Column()"}
    assert f"{changed.get(name)} changed from" in line if name in changed else "a: " in line


def test_a_broken_number_after_whole_ones_is_refused_until_the_column_is_named(files):
    paths = files(['{"a": 1}\n', '{"a": 1.5}\n'])
    with pytest.raises(Exception) as error:
        load(paths)
    assert "was truncated converting to int64" in str(error.value.__cause__)
    assert [line.split()[-1] for line in script(paths)] == ["int64", "double"]
    features = datasets.Features({"a": datasets.Value("float64")})
    assert load(paths, features=features)["a"][1] == 1.5


def test_a_column_less_or_whole_numbers_after_broken_ones_fit_the_first_line(files):
    paths = files(['{"a": 1.5, "b": "x"}\n', '{"a": 1}\n', '{"a": null, "b": "y"}\n'])
    assert len(load(paths)) == 3
    kinds = [line.split(" ", 1)[1] for line in script(paths)]
    assert kinds == ["a: double, b: string", "a: int64", "a: null, b: string"]


def test_named_columns_take_the_differing_files_in(files):
    features = datasets.Features({"a": datasets.Value("string"), "c": datasets.Value("int64")})
    for name in ("a column more", "another type", "a column that begins empty"):
        rows = load(files(REFUSED[name]), features=features)
        assert set(rows.column_names) == {"a", "c"} and rows[0]["c"] is None


def test_each_of_the_differing_files_loads_alone(files):
    for path in files(REFUSED["a column more"]):
        assert len(load([path])) == 1


@pytest.mark.parametrize("second", ["a,b,c\n1,2,3\n", "a\n1\n"], ids=["a column more", "one less"])
def test_csv_files_of_one_split_that_differ_are_refused_and_have_two_headers(
    files, tmp_path, says, second
):
    if second == "a\n1\n":
        pytest.importorskip("datasets", minversion="5")  # 4.4 fills it with None
    for name, text in (("0.csv", "a,b\n1,2\n"), ("1.csv", second), ("2.csv", "a,b\n3,4\n")):
        (tmp_path / name).write_text(text)
    with pytest.raises(Exception) as error:
        datasets.load_dataset("csv", data_files=f"{tmp_path}/*.csv", split="train")
    whole = "".join(traceback.format_exception(error.value))
    says("HUB10", "\n".join(line for line in whole.splitlines() if "generating the" not in line))
    headers = in_shell(span("HUB10", "head -qn1"), tmp_path).splitlines()
    assert sorted(line.split()[0] for line in headers) == ["1", "2"]
