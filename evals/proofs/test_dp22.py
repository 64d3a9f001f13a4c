"""DP22: a killed worker of `map` ends it without a traceback of the function; without a pool the true error shows."""

import os
import signal

import pytest

datasets = pytest.importorskip("datasets")


def dies(row, index):
    if index == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return row


def raises(row, index):
    if index == 3:
        raise KeyError("text")
    return row


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    datasets.disable_progress_bars()
    return datasets.Dataset.from_dict({"a": list(range(8))})


def test_a_killed_worker_ends_the_map_with_the_signature_alone(says, table):
    with pytest.raises(RuntimeError) as error:
        table.map(dies, with_indices=True, num_proc=2)
    says("DP22", str(error.value))


def test_an_ordinary_exception_comes_through_and_needs_no_pool(says, table):
    with pytest.raises(KeyError) as error:
        table.map(raises, with_indices=True, num_proc=None)
    with pytest.raises(AssertionError):
        says("DP22", str(error.value))
