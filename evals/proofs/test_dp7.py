"""DP7: a length that is not the number of samples."""

import pytest
import torch
from check_code import shown, span
from torch.utils.data import DataLoader, Dataset, random_split


class Files(Dataset):
    """Seven of ten files are kept. `length` and `read` say which list each method uses."""

    def __init__(self, length, read):
        self.length, self.read = length, read
        self.files, self.kept = list(range(10)), list(range(7))

    def __len__(self):
        return self.length(self)

    def __getitem__(self, index):
        return self.read(self, index)


def epoch(dataset, **options):
    return sorted(
        x
        for batch in DataLoader(dataset, batch_size=3, shuffle=True, **options)
        for x in batch.tolist()
    )


def test_a_length_that_is_too_large_raises_with_the_signature_of_a_worker(says):
    dataset = Files(lambda self: len(self.files), lambda self, i: self.kept[i])
    with pytest.raises(IndexError):
        epoch(dataset)
    if "fork" in torch.multiprocessing.get_all_start_methods():
        with pytest.raises(IndexError) as error:
            epoch(dataset, num_workers=1, multiprocessing_context="fork")
        says("DP7", str(error.value))


def test_a_modulo_hides_that_and_repeats_samples():
    dataset = Files(lambda self: len(self.files), lambda self, i: self.kept[i % len(self.kept)])
    assert epoch(dataset) == [0, 0, 1, 1, 2, 2, 3, 4, 5, 6]


def test_a_length_that_is_too_small_leaves_samples_out_in_silence():
    dataset = Files(lambda self: 5, lambda self, i: self.files[i])
    assert epoch(dataset) == [0, 1, 2, 3, 4]
    assert len(list(dataset)) == 10, "plain iteration ignores the length"


def test_one_list_for_both_gives_every_sample_once():
    dataset = Files(lambda self: len(self.kept), lambda self, i: self.kept[i])
    assert epoch(dataset) == list(range(7))


def stops_at(dataset):
    """Which of the two reads of the check raises an IndexError: the last sample, the one behind it, or neither."""
    last = span("DP7", "n = len(dataset)")
    for code, name in ((last, "last"), (f"{last}; {span('DP7', 'dataset[n]')}", "behind")):
        try:
            shown(code, dataset=dataset)
        except IndexError:
            return name
    return "neither"


@pytest.mark.parametrize(
    "length, read, stop",
    [
        (lambda self: len(self.kept), lambda self, i: self.kept[i], "behind"),  # sound
        (lambda self: len(self.files), lambda self, i: self.kept[i], "last"),
        (lambda self: 7, lambda self, i: self.kept[i % 7], "neither"),
        (lambda self: 5, lambda self, i: self.files[i], "neither"),
    ],
)
def test_the_reads_of_the_check_pass_only_where_length_and_samples_agree(length, read, stop):
    assert stops_at(Files(length, read)) == stop


def test_the_count_of_paths_in_the_check_shows_samples_that_come_twice():
    code = f"print({span('DP7', 'path')})"
    for modulo, paths in ((10, "10"), (7, "7")):
        dataset = Files(lambda self: 10, lambda self, i, m=modulo: {"path": f"{i % m}.jpg"})
        assert shown(code, dataset=dataset, n=len(dataset)) == paths


def test_an_empty_dataset_fails_with_the_signature(says):
    with pytest.raises(ValueError) as error:
        DataLoader([], shuffle=True)
    says("DP7", str(error.value))


class WithoutLength(Dataset):
    def __getitem__(self, index):
        return index


class WithoutItems(Dataset):
    def __len__(self):
        return 3


class OtherDataset(WithoutLength):
    pass


@pytest.mark.parametrize(
    "run",
    [
        lambda: list(DataLoader(OtherDataset())),
        lambda: list(DataLoader(WithoutItems())),
        lambda: random_split(range(10), [5, 4]),
    ],
)
def test_missing_methods_and_wrong_splits_have_signatures(says, run):
    with pytest.raises((TypeError, NotImplementedError, ValueError)) as error:
        run()
    says("DP7", str(error.value))


def test_drop_last_with_too_few_samples_makes_an_empty_epoch():
    assert len(DataLoader(range(5), batch_size=8, drop_last=True)) == 0
