"""DP6: what must be pickled to start a worker."""

import functools
import pickle
import subprocess
import sys
import warnings

import pytest
import torch
from check_code import shown, span
from torch.utils.data import DataLoader, Dataset, default_collate


def scaled(batch, factor):
    return default_collate(batch) * factor


def nested():
    return lambda batch: batch


class Squares(Dataset):
    def __init__(self, file=None):
        self.file = file

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.tensor(index**2)


def failure(loader):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises((AttributeError, TypeError, pickle.PicklingError)) as error:
            list(loader)
    return str(error.value), "\n".join(str(warning.message) for warning in caught)


@pytest.mark.parametrize(
    "options",
    [
        dict(dataset=Squares(), collate_fn=nested()),
        dict(dataset=Squares((i for i in range(3)))),
    ],
)
def test_spawned_workers_refuse_lambdas_and_generators_with_the_signatures(says, options):
    text, warned = failure(DataLoader(num_workers=1, multiprocessing_context="spawn", **options))
    says("DP6", text)
    says("DP6", warned)


def test_an_open_file_is_refused_as_well(says, tmp_path):
    with open(tmp_path / "data", "w") as file:
        says(
            "DP6",
            failure(DataLoader(Squares(file), num_workers=1, multiprocessing_context="spawn"))[0],
        )


@pytest.mark.skipif(
    "fork" not in torch.multiprocessing.get_all_start_methods(), reason="needs fork"
)
def test_fork_and_no_workers_never_pickle():
    loader = DataLoader(
        Squares((i for i in range(3))),
        num_workers=1,
        multiprocessing_context="fork",
        collate_fn=nested(),
    )
    assert len(list(loader)) == len(list(DataLoader(Squares(), collate_fn=nested()))) == 2


def test_the_check_raises_the_same_error_without_a_worker(says):
    loader = DataLoader(Squares(), collate_fn=nested())
    with pytest.raises((AttributeError, pickle.PicklingError)) as error:
        shown(span("DP6", "pickle.dumps"), loader=loader)
    says("DP6", str(error.value))


@pytest.mark.parametrize(
    "text",
    [
        "AttributeError: Can't get local object 'f.<locals>.<lambda>'",  # Python 3.13
        "TypeError: cannot pickle 'TextIOWrapper' instances",  # 3.12
        "AttributeError: Can't get attribute 'D' on <module '__main__' (built-in)>",  # 3.11
        "AttributeError: Can't get attribute 'D' on <module '__main__' (<class '_frozen_importlib.BuiltinImporter'>)>",
    ],
)
def test_the_wordings_of_other_pythons_are_signatures_too(says, text):
    says("DP6", text)


def test_a_class_that_the_worker_cannot_import_is_named_with_the_signature(says):
    code = "import multiprocessing as m\ndef D(): 0\np = m.get_context('spawn').Process(target=D); p.start(); p.join()"
    says(
        "DP6",
        subprocess.run(
            [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=20
        ).stderr,
    )


def test_a_top_level_function_bound_by_partial_is_sent_to_a_spawned_worker():
    loader = DataLoader(
        Squares(),
        batch_size=2,
        num_workers=1,
        multiprocessing_context="spawn",
        collate_fn=functools.partial(scaled, factor=10),
    )
    shown(span("DP6", "pickle.dumps"), loader=loader)
    [batch] = loader
    assert batch.tolist() == [0, 10]
