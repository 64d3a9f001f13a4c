"""DP4: samples that can't be stacked."""

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, default_collate

torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = (
    0.5  # 5 s: how long a failed loader waits for its worker
)
SHORT, LONG = torch.ones(3), torch.ones(5)


def message(samples, **options):
    with pytest.raises(Exception) as error:
        list(DataLoader(samples, batch_size=len(samples), **options))
    return str(error.value)


def test_batches_of_one_work_and_larger_ones_fail_with_the_signature(says):
    assert len(list(DataLoader([SHORT, LONG], batch_size=1))) == 2
    text = message([SHORT, LONG])
    assert "got [3] at entry 0 and [5] at entry 1" in text
    says("DP4", text)


@pytest.mark.skipif(
    "fork" not in torch.multiprocessing.get_all_start_methods(), reason="needs fork"
)
def test_in_a_worker_a_longer_first_sample_gives_the_other_wording(says):
    worker = dict(num_workers=1, multiprocessing_context="fork")
    assert "stack expects each tensor" in message([SHORT, LONG], **worker)
    text = message([LONG, SHORT], **worker)
    assert "Trying to resize storage that is not resizable" in text
    says("DP4", text)


@pytest.mark.parametrize(
    "samples",
    [
        [[1, 2], [1, 2, 3]],
        [None, SHORT],
        [SHORT, None],
    ],
)
def test_ragged_lists_and_missing_samples_have_signatures_of_their_own(says, samples):
    says("DP4", message(samples))


def test_a_tensor_of_ragged_lists_has_one_too(says):
    with pytest.raises(ValueError) as error:
        torch.tensor([[1, 2], [1, 2, 3]])
    says("DP4", str(error.value))


def test_padding_in_collate_fn_builds_the_batch_and_keeps_ragged_boxes_as_a_list():
    def collate(samples):
        samples = [s for s in samples if s is not None]
        ids = [s["ids"] for s in samples]
        return {
            "ids": pad_sequence(ids, batch_first=True, padding_value=-1),
            "mask": pad_sequence([torch.ones_like(i) for i in ids], batch_first=True),
            "boxes": [s["boxes"] for s in samples],
        }

    samples = [
        {"ids": SHORT, "boxes": torch.ones(2, 4)},
        None,
        {"ids": LONG, "boxes": torch.ones(7, 4)},
    ]
    [batch] = DataLoader(samples, batch_size=3, collate_fn=collate)
    assert batch["ids"].shape == (2, 5) and batch["mask"].sum(1).tolist() == [3, 5]
    assert [len(boxes) for boxes in batch["boxes"]] == [2, 7]


def test_the_check_counts_the_shapes():
    assert {tuple(x.shape) for x in (SHORT, LONG)} == {(3,), (5,)}
    assert default_collate([SHORT, SHORT]).shape == (2, 3)


def test_the_check_finds_more_than_one_shape(printed):
    sample = lambda n: (torch.ones(n), 0)
    assert printed("DP4", dataset=[sample(3), sample(5)]) in ("{(3,), (5,)}", "{(5,), (3,)}")
    assert printed("DP4", dataset=[sample(3), sample(3)]) == "{(3,)}"
