"""X4: a length limit that cuts image placeholders."""

from types import SimpleNamespace

import pytest
import torch

IMAGE, WIDTH = 99, 4


def merge(input_ids, features):
    """Puts image features where the placeholders stand, with the check of transformers."""
    embeds = torch.zeros(*input_ids.shape, WIDTH)
    mask = (input_ids == IMAGE)[..., None].expand_as(embeds)
    if mask.sum() != features.numel():
        raise ValueError(
            f"Image features and image tokens do not match, tokens: {int((input_ids == IMAGE).sum())},"
            f" features: {features.shape[0]}"
        )
    return embeds.masked_scatter(mask, features)


IDS = torch.tensor([[1, *[IMAGE] * 576, 5, 6, 7]])
FEATURES = torch.arange(1.0, 577.0)[:, None].expand(-1, WIDTH).contiguous()


def test_the_whole_row_fits_the_features():
    assert merge(IDS, FEATURES)[0, 1:577, 0].tolist() == FEATURES[:, 0].tolist()


def test_a_limit_within_the_image_stops_with_the_signature(says):
    with pytest.raises(ValueError) as error:
        merge(IDS[:, :512], FEATURES)
    assert "tokens: 511, features: 576" in str(error.value)
    says("X4", str(error.value))


def test_without_the_check_the_rest_of_the_picture_is_dropped_in_silence():
    cut = IDS[:, :512]
    embeds = torch.zeros(1, 512, WIDTH)
    merged = embeds.masked_scatter((cut == IMAGE)[..., None].expand_as(embeds), FEATURES)
    assert merged.max() == 511


def test_in_a_batch_the_next_picture_then_slides_into_the_wrong_example():
    rows = torch.tensor(
        [[IMAGE, IMAGE, 3], [IMAGE, IMAGE, IMAGE]]
    )  # the first row lost one of three
    features = torch.tensor([1.0, 1, 1, 2, 2, 2])[:, None].expand(-1, WIDTH).contiguous()
    embeds = torch.zeros(2, 3, WIDTH)
    merged = embeds.masked_scatter((rows == IMAGE)[..., None].expand_as(embeds), features)
    assert merged[1, 0, 0] == 1 and merged[1, 1, 0] == 2


def test_a_limit_behind_the_image_may_leave_no_label_and_the_loss_is_nan():
    labels = torch.tensor([-100] * 577 + [5, 6, 7])[:577]
    loss = torch.nn.functional.cross_entropy(torch.randn(577, 10), labels)
    assert loss.isnan()


def test_pictures_decide_how_many_placeholders_there_are():
    def qwen2(height, width, patch=14, merge_size=2):
        return (height // patch) * (width // patch) // merge_size**2

    assert qwen2(448, 448) == 256
    assert qwen2(1792, 1344) > 3000


def test_the_check_agrees_for_a_whole_row_and_not_for_a_cut_one(value_of):
    model = SimpleNamespace(config=SimpleNamespace(image_token_id=9))
    features = value_of("X4", "image_grid_thw", image_grid_thw=torch.tensor([[1, 32, 32]]))
    ids = torch.tensor([[1] + [9] * 256 + [2]])
    assert value_of("X4", "(ids ==", ids=ids, model=model) == features == 256
    assert value_of("X4", "(ids ==", ids=ids[:, :128], model=model) == 127
