"""V2: random transforms at evaluation."""

import pytest
import torch

SIZE = 12


def pictures(n, seed):
    """A bright spot somewhere; its class is whether it lies in the left or the right half."""
    generator = torch.Generator().manual_seed(seed)
    rows, columns = (torch.randint(0, SIZE, (n,), generator=generator) for _ in range(2))
    images = torch.zeros(n, SIZE, SIZE)
    images[torch.arange(n), rows, columns] = 1.0
    return images, (columns >= SIZE // 2).long()


def flip_or_not(images):
    flipped = torch.rand(len(images)) < 0.5
    return torch.where(flipped[:, None, None], images.flip(2), images)


def crop_randomly(images):
    """A window of two thirds, at a random place: the spot is often outside."""
    out = torch.zeros_like(images)
    for i, (y, x) in enumerate(torch.randint(0, SIZE // 3 + 1, (len(images), 2)).tolist()):
        out[i, y : y + 2 * SIZE // 3, x : x + 2 * SIZE // 3] = images[
            i, y : y + 2 * SIZE // 3, x : x + 2 * SIZE // 3
        ]
    return out


def predict(images):
    """A model that knows the task: which half is brighter, and left when it sees nothing."""
    return (images[:, :, SIZE // 2 :].sum((1, 2)) > images[:, :, : SIZE // 2].sum((1, 2))).long()


def accuracy(transform, seed):
    torch.manual_seed(seed)
    images, labels = pictures(300, 1)
    return (predict(transform(images)) == labels).float().mean().item()


def test_without_random_transforms_each_pass_gives_the_same_number():
    assert {accuracy(lambda images: images, seed) for seed in range(5)} == {1.0}


def test_a_random_crop_at_evaluation_gives_another_lower_number_each_time():
    numbers = {accuracy(crop_randomly, seed) for seed in range(5)}
    assert len(numbers) > 1 and max(numbers) < 0.95


def test_a_flip_that_changes_the_meaning_brings_a_perfect_model_down_to_chance():
    assert 0.4 < accuracy(flip_or_not, 0) < 0.6


def test_two_subsets_of_one_dataset_share_its_transform():
    class Folder(torch.utils.data.Dataset):
        transform = None

        def __len__(self):
            return 10

        def __getitem__(self, index):
            return self.transform

    train, validation = torch.utils.data.random_split(Folder(), [8, 2])
    validation.dataset.transform = "centre crop"
    assert train[0] == "centre crop"  # the training set lost its augmentation

    train.dataset.transform = "random crop"
    assert validation[0] == "random crop"  # and the other way round


class Validation(torch.utils.data.Dataset):
    def __init__(self, transform):
        self.images, self.labels = pictures(32, 1)
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.transform(self.images[index : index + 1]), self.labels[index]


def mixed(samples):
    """A batch of pictures, each mixed with another one."""
    images, labels = torch.utils.data.default_collate(samples)
    return images.lerp(images[torch.randperm(len(images))], 0.5), labels


@pytest.mark.parametrize(
    "transform, collate, same",
    [
        (lambda images: images, None, True),
        (torch.rand_like, None, False),
        (flip_or_not, None, False),  # each second picture stays as it was
        (lambda images: images, mixed, False),
    ],
    ids=["fixed", "random", "flips", "mixup"],
)
def test_the_check_is_true_for_fixed_steps_and_false_for_random_ones(
    printed, transform, collate, same
):
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(Validation(transform), 32, collate_fn=collate)
    assert printed("V2", torch=torch, val_loader=loader) == str(same)
