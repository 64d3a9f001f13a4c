"""M16: one long sample among many short ones, in a padded batch."""

import pytest
import torch
from check_code import span
from memory_counts import peak
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

WIDTH, BATCH, LONG, LIMIT = 8, 8, 3000, 64


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    samples = [
        torch.randn(int(n), WIDTH) for n in torch.randint(20, LIMIT, (400,), generator=generator)
    ]
    samples[57] = torch.randn(LONG, WIDTH)
    return samples


def peaks(batches):
    model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, 1))

    def step(x):
        model.zero_grad()
        model(x).mean().backward()

    return [peak(lambda x=x: step(x)) for x in batches]


def padded(samples):
    return pad_sequence(samples, batch_first=True)


def shuffled(data, seed=1, **options):
    return DataLoader(
        data,
        batch_size=BATCH,
        collate_fn=padded,
        shuffle=True,
        generator=torch.Generator().manual_seed(seed),
        **options,
    )


def usual_and_worst(sizes):
    return sorted(sizes)[len(sizes) // 2], max(sizes)


def test_one_batch_needs_many_times_the_usual_memory_and_pays_for_padding(data):
    usual, worst = usual_and_worst(peaks(shuffled(data)))
    assert worst > 20 * usual
    [long] = [x for x in shuffled(data) if x.shape[1] == LONG]
    assert long.shape == (BATCH, LONG, WIDTH)


def test_where_it_comes_changes_with_the_seed(data):
    places = {[x.shape[1] for x in shuffled(data, seed)].index(LONG) for seed in range(5)}
    assert len(places) > 2


def test_a_limit_on_the_length_levels_the_peaks(data):
    usual, worst = usual_and_worst(peaks(shuffled([x[:LIMIT] for x in data])))
    assert worst < 1.5 * usual


def test_dropping_what_is_too_long_loses_one_sample_and_levels_the_peaks(data):
    short = [x for x in data if len(x) <= LIMIT]
    assert len(short) == len(data) - 1
    usual, worst = usual_and_worst(peaks(shuffled(short)))
    assert worst < 1.5 * usual


def test_batches_with_a_budget_of_padded_tokens_keep_the_long_sample_and_cap_the_rest(data):
    lengths = [len(x) for x in data]
    budget, batches, batch = LONG, [], []
    for i in sorted(range(len(data)), key=lengths.__getitem__):
        if batch and max(lengths[i], *(lengths[j] for j in batch)) * (len(batch) + 1) > budget:
            batches.append(batch)
            batch = []
        batch.append(i)
    batches.append(batch)
    loader = DataLoader(data, batch_sampler=batches, collate_fn=padded)
    assert sum(map(len, batches)) == len(data) and [57] in batches
    assert max(x.shape[0] * x.shape[1] for x in loader) <= budget
    assert max(peaks(loader)) < max(peaks(shuffled(data))) / 4


def test_the_trainers_sampler_puts_the_longest_sample_into_the_first_batch(data):
    pytest.importorskip("transformers")
    from transformers.trainer_pt_utils import get_length_grouped_indices

    lengths = [len(x) for x in data]
    for seed in range(5):
        order = get_length_grouped_indices(
            lengths, BATCH, generator=torch.Generator().manual_seed(seed)
        )
        assert order[0] == 57 and sorted(order) == list(range(len(data)))


def test_the_trainer_takes_the_name_of_this_version():
    transformers = pytest.importorskip("transformers", minversion="5.2")
    arguments = transformers.TrainingArguments(
        output_dir="unused", report_to=[], train_sampling_strategy="group_by_length"
    )
    assert arguments.train_sampling_strategy == "group_by_length"
    with pytest.raises(TypeError, match="group_by_length"):
        transformers.TrainingArguments(output_dir="unused", report_to=[], group_by_length=True)


def test_the_ten_longest_of_the_check_stand_far_above_the_median_only_with_the_long_one(data):
    def above(samples):
        lengths = [len(sample) for sample in samples]
        longest = eval(span("M16", "sorted(lengths)"), {"lengths": lengths})
        return longest[-1] / sorted(lengths)[len(lengths) // 2]

    assert above(data) > 20
    assert above([sample for sample in data if len(sample) != LONG]) < 3
