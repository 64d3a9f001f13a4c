"""X4: a length limit that cuts image placeholders."""

import pytest
import torch

transformers = pytest.importorskip("transformers", minversion="5")

IMAGE, WIDTH = 9, 4
GRID = torch.tensor([[1, 32, 32]])  # patches; four of them make one placeholder
IDS = torch.tensor([[1, *[IMAGE] * 256, 2]])


@pytest.fixture(scope="module")
def model():
    """A Qwen2-VL of one layer that sees an image of 256 placeholders."""
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4}
    text = dict(vocab_size=16, hidden_size=16, intermediate_size=8, num_hidden_layers=1)
    text |= dict(num_attention_heads=2, num_key_value_heads=2, rope_parameters=rope)
    text |= dict(bos_token_id=1, eos_token_id=2)
    vision = dict(depth=1, embed_dim=16, hidden_size=16, num_heads=2, mlp_ratio=1, patch_size=2)
    places = dict(vision_start_token_id=10, vision_end_token_id=11, video_token_id=12)
    return transformers.Qwen2VLForConditionalGeneration(
        transformers.Qwen2VLConfig(
            text_config=text, vision_config=vision, image_token_id=IMAGE, **places
        )
    )


def loss(model, ids):
    return model(
        input_ids=ids,
        labels=ids,
        pixel_values=torch.randn(1024, 24),
        image_grid_thw=GRID,
        mm_token_type_ids=(ids == IMAGE).long(),
    ).loss


def test_the_whole_row_fits_the_features(model):
    assert loss(model, IDS).isfinite()


def test_a_limit_within_the_image_stops_with_the_signature(model, says):
    with pytest.raises(ValueError) as error:
        loss(model, IDS[:, :128])
    assert "tokens: 127, features: 256" in str(error.value)
    says("X4", str(error.value))


def test_without_the_check_the_rest_of_the_picture_is_dropped_in_silence():
    features = torch.arange(1.0, 257.0)[:, None].expand(-1, WIDTH).contiguous()
    cut = IDS[:, :128]
    embeds = torch.zeros(1, 128, WIDTH)
    merged = embeds.masked_scatter((cut == IMAGE)[..., None].expand_as(embeds), features)
    assert merged.max() == 127


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


def test_the_check_agrees_for_a_whole_row_and_not_for_a_cut_one(model, value_of):
    features = value_of("X4", "image_grid_thw", image_grid_thw=GRID)
    assert value_of("X4", "(ids ==", ids=IDS, model=model) == features == 256
    assert value_of("X4", "(ids ==", ids=IDS[:, :128], model=model) == 127
