"""DP1: random generators in DataLoader workers."""

import ast
import functools
import random

import numpy as np
import pytest
import torch
from check_code import shown, span
from torch.utils.data import DataLoader, Dataset, Subset, get_worker_info

pytestmark = pytest.mark.skipif(
    "fork" not in torch.multiprocessing.get_all_start_methods(), reason="needs fork"
)
WORKERS = 2


class Draws(Dataset):
    """Every sample is one draw from the generator named `source`."""

    def __init__(self, source):
        self.source = source
        self.rng = np.random.default_rng(0)
        self.state = np.random.RandomState(0)
        self.own = random.Random(0)
        self.generator = torch.Generator().manual_seed(0)

    def __len__(self):
        return 2 * WORKERS

    def __getitem__(self, index):
        return {
            "np.random": lambda: int(np.random.randint(10**6)),
            "random": lambda: random.randrange(10**6),
            "torch": lambda: int(torch.randint(10**6, ())),
            "default_rng": lambda: int(self.rng.integers(10**6)),
            "RandomState": lambda: int(self.state.randint(10**6)),
            "Random": lambda: self.own.randrange(10**6),
            "Generator": lambda: int(torch.randint(10**6, (), generator=self.generator)),
        }[self.source]()


def two_epochs(source, before_epoch=lambda: None, **options):
    """[[draws of worker 0, draws of worker 1], ...] of two epochs."""
    loader = DataLoader(
        Draws(source), batch_size=2, num_workers=WORKERS, multiprocessing_context="fork", **options
    )
    epochs = []
    for _ in range(2):
        before_epoch()
        epochs.append([batch.tolist() for batch in loader])
    return epochs


@pytest.mark.parametrize("source", ["default_rng", "RandomState", "Random", "Generator"])
def test_a_generator_in_the_dataset_gives_all_workers_and_epochs_the_same_numbers(source):
    first, second = two_epochs(source)
    assert first[0] == first[1] and first == second


@pytest.mark.parametrize("source", ["np.random", "random", "torch"])
def test_global_generators_are_seeded_for_each_worker_and_epoch(source):
    first, second = two_epochs(source)
    assert len({tuple(draws) for draws in first + second}) == 2 * WORKERS


def test_a_constant_seed_in_worker_init_fn_undoes_that():
    first, second = two_epochs("np.random", worker_init_fn=lambda worker: np.random.seed(42))
    assert first[0] == first[1] and first == second


def test_a_constant_plus_the_worker_number_still_repeats_every_epoch():
    first, second = two_epochs(
        "np.random", worker_init_fn=lambda worker: np.random.seed(42 + worker)
    )
    assert first[0] != first[1] and first == second


def test_seeding_torch_at_the_top_of_each_epoch_repeats_it():
    first, second = two_epochs("np.random", before_epoch=lambda: torch.manual_seed(7))
    assert first[0] != first[1] and first == second


def test_persistent_workers_vary_between_epochs_and_still_agree_with_each_other():
    first, second = two_epochs("default_rng", persistent_workers=True)
    assert first[0] == first[1] and second[0] == second[1] and first != second


def reseed(worker):
    info = get_worker_info()
    info.dataset.rng = np.random.default_rng([info.seed, 0])


def test_the_fix_seeds_the_generator_when_the_worker_starts():
    first, second = two_epochs("default_rng", worker_init_fn=reseed)
    assert len({tuple(draws) for draws in first + second}) == 2 * WORKERS


def test_through_a_subset_the_generator_is_one_dataset_deeper():
    def deeper(worker):
        info = get_worker_info()
        info.dataset.dataset.rng = np.random.default_rng([info.seed, 0])

    def draws(init):
        subset = Subset(Draws("default_rng"), range(2 * WORKERS))
        loader = DataLoader(
            subset,
            batch_size=2,
            num_workers=WORKERS,
            multiprocessing_context="fork",
            worker_init_fn=init,
        )
        return [batch.tolist() for batch in loader]

    first, second = draws(reseed)
    assert first == second
    first, second = draws(deeper)
    assert first != second


def test_a_flip_keeps_the_plain_sum_and_changes_the_number_of_the_check():
    x = torch.arange(12.0).reshape(1, 3, 4)
    assert x.sum() == x.flip(-1).sum()
    assert x.flatten().cumsum(0).sum() != x.flip(-1).flatten().cumsum(0).sum()


def test_the_check_loads_sample_0_four_times_and_shows_it():
    class Samples(Draws):
        def __getitem__(self, index):
            return torch.tensor(super().__getitem__(index)), 0

    def check(source):
        forked = functools.partial(DataLoader, multiprocessing_context="fork")
        lines = shown(span("DP1", "cumsum"), DataLoader=forked, dataset=Samples(source))
        return list(map(ast.literal_eval, lines.splitlines()))

    sick, healthy = check("default_rng"), check("np.random")
    assert sick[0][0] == sick[0][1] and sick[0] == sick[1]
    assert len(set(healthy[0] + healthy[1])) == 8


def test_ranks_seeded_alike_draw_alike_until_the_loader_gets_a_generator_of_its_rank():
    def rank(generator=None):
        torch.manual_seed(0)
        return two_epochs("torch", generator=generator)

    assert rank() == rank()
    assert rank(torch.Generator().manual_seed(0)) != rank(torch.Generator().manual_seed(1))
