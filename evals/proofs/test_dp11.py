"""DP11: blue first. OpenCV itself is not needed: an array in its order is."""

import numpy as np
import pytest
import torch
from check_code import shown, span
from PIL import Image

RGB = np.zeros((2, 2, 3), np.uint8)
RGB[..., 0] = 255  # a red image
BGR = RGB[..., ::-1].copy()  # as cv2.imread returns it


def test_both_orders_have_one_shape_and_type_so_nothing_is_raised():
    assert RGB.shape == BGR.shape and RGB.dtype == BGR.dtype
    assert torch.from_numpy(BGR)[0, 0].tolist() == [0, 0, 255]


def test_converting_twice_swaps_back():
    assert (BGR[..., ::-1][..., ::-1] == BGR).all()


@pytest.mark.parametrize("view", [lambda a: a[:, :, ::-1], np.fliplr, np.rot90])
def test_a_reversed_view_fails_with_the_signature_and_a_copy_of_it_works(says, view):
    with pytest.raises(ValueError) as error:
        torch.from_numpy(view(BGR))
    says("DP11", str(error.value))
    assert torch.from_numpy(view(BGR).copy()).shape == BGR.shape


def test_the_check_finds_the_swap(tmp_path):
    Image.fromarray(RGB).save(tmp_path / "red.png")
    lines = span("DP11", "ImageOps.exif_transpose") + "\n" + span("DP11", "abs(a - b)")

    def check(array):
        return shown(lines, p=tmp_path / "red.png", b=array)

    assert check(BGR) == "170.0 0.0" and check(RGB) == "0.0 170.0"
