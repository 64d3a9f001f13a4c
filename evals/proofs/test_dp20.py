"""DP20: one bad file ends an epoch; a pass with the loop of the entry names each of them beforehand, and the rest trains through."""

import contextlib
import functools
import io
import os
import shutil
import subprocess

import pytest
import torch
from check_code import block
from torch.utils.data import DataLoader, Subset, default_collate

datasets = pytest.importorskip("torchvision.datasets")
Image = pytest.importorskip("PIL.Image")
ImageFile = pytest.importorskip("PIL.ImageFile")


def encoded(form):
    """The bytes of a picture of 256 by 256 with a lot of detail."""
    noise = Image.frombytes(
        "RGB",
        (32, 32),
        bytes(torch.randint(256, (3072,), generator=torch.Generator().manual_seed(0)).tolist()),
    )
    file = io.BytesIO()
    noise.resize((256, 256)).save(file, form)
    return file.getvalue()


JPEG, PNG, GIF = encoded("JPEG"), encoded("PNG"), encoded("GIF")
BAD = {
    "half.jpg": JPEG[: len(JPEG) // 2],
    "half.png": PNG[: len(PNG) // 2],
    "empty.jpg": b"",
    "page.jpg": b"<!DOCTYPE html><html><body>404</body></html>",
    "._0.jpg": b"\0\5\x16\7\0\2\0\0Mac OS X        ",
}


def tensor(picture):
    return torch.frombuffer(bytearray(picture.resize((8, 8)).tobytes()), dtype=torch.uint8)


@pytest.fixture
def folder(tmp_path):
    """folder(name, …): eight sound pictures, and the bad files of these names."""

    def make(*names):
        place = tmp_path / "train" / "cat"
        place.mkdir(parents=True, exist_ok=True)
        for i in range(8):
            (place / f"{i}.jpg").write_bytes(JPEG)
        for name in names:
            (place / name).write_bytes(BAD[name])
        return datasets.ImageFolder(str(tmp_path / "train"), transform=tensor)

    return make


def after_the_loop(dataset):
    """What the loop under Fix prints, and the names that it leaves."""
    code = block("DP20", "fix")
    code = code.replace("os.cpu_count()", "2")
    loader = functools.partial(DataLoader, multiprocessing_context="fork")
    names = {"torch": torch, "os": os, "DataLoader": loader, "Subset": Subset, "dataset": dataset}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, names)
    return out.getvalue(), names


@pytest.mark.parametrize("name", ["empty.jpg", "page.jpg", "._0.jpg"])
def test_one_file_that_is_no_picture_ends_the_epoch(name, folder, says):
    with pytest.raises(Exception) as error:
        list(DataLoader(folder(name), batch_size=4, num_workers=1))
    says("DP20", f"{type(error.value).__name__}: {error.value}")


@pytest.mark.parametrize("name", ["half.jpg", "half.png"])
def test_one_file_that_was_cut_off_ends_the_epoch(name, folder):
    with pytest.raises(OSError, match="OSError: image file is truncated"):
        list(DataLoader(folder(name), batch_size=4, num_workers=1))


def test_the_loop_names_all_of_them_and_the_rest_trains_through(folder):
    told, names = after_the_loop(folder(*BAD))
    assert sorted(os.path.basename(line.split()[1]) for line in told.splitlines()) == sorted(BAD)
    good = names["good"]
    assert sum(len(y) for _, y in DataLoader(good, batch_size=4, num_workers=1)) == 8
    assert not after_the_loop(good)[0]


@pytest.mark.skipif(not shutil.which("file"), reason="needs file")
def test_the_line_of_the_check_lists_what_is_no_picture_and_no_sound_one(folder, shell_of):
    def listed(dataset):
        code = shell_of("DP20", "--mime-type").replace("DATA", dataset.root)
        told = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
        assert not told.stderr
        return {os.path.basename(line.split(":")[0]) for line in told.stdout.splitlines()}

    assert listed(folder()) == set()
    assert listed(folder(*BAD)) == {"empty.jpg", "page.jpg", "._0.jpg"}


def test_verify_lets_half_a_jpeg_through(folder):
    Image.open(io.BytesIO(BAD["half.jpg"])).verify()
    with pytest.raises(OSError):
        Image.open(io.BytesIO(BAD["half.jpg"])).convert("RGB")
    with pytest.raises(OSError, match="Truncated File Read"):
        Image.open(io.BytesIO(BAD["half.png"])).verify()


def test_changed_bytes_are_an_error_or_a_wrong_picture():
    sound = Image.open(io.BytesIO(JPEG)).convert("RGB").tobytes()
    seen = set()
    for place in range(1000, len(JPEG) - 100, max(1, len(JPEG) // 40)):
        changed = JPEG[:place] + bytes([JPEG[place] ^ 0x55]) + JPEG[place + 1 :]
        Image.open(io.BytesIO(changed)).verify()
        try:
            seen.add(Image.open(io.BytesIO(changed)).convert("RGB").tobytes() == sound)
        except OSError as e:
            assert str(e).startswith(
                ("broken data stream when reading image file", "image file is truncated")
            )
            seen.add("error")
    assert False in seen


@pytest.mark.parametrize("name, fill", [("half.jpg", 128), ("half.png", 0)])
def test_truncated_images_that_are_loaded_all_the_same_are_half_grey_or_black(
    name, fill, monkeypatch
):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    picture = Image.open(io.BytesIO(BAD[name])).convert("RGB")
    rows = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(256, -1)
    filled = (rows == fill).all(1)
    assert filled[-1] and 0.3 < filled.float().mean() < 0.7


@pytest.mark.parametrize("name", ["empty.jpg", "page.jpg", "._0.jpg"])
def test_what_is_no_picture_stops_the_run_all_the_same(name, folder, monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(Image.UnidentifiedImageError):
        Image.open(io.BytesIO(BAD[name]))


def test_image_folder_goes_by_the_ending(folder, tmp_path):
    dataset = folder("._0.jpg")
    (tmp_path / "train" / "cat" / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    names = [os.path.basename(p) for p, _ in datasets.ImageFolder(dataset.root).samples]
    assert "._0.jpg" in names and ".DS_Store" not in names
    valid = lambda p: (
        p.lower().endswith((".jpg", ".png")) and not os.path.basename(p).startswith(".")
    )
    assert len(datasets.ImageFolder(dataset.root, is_valid_file=valid)) == 8


def test_a_batch_of_nothing_but_bad_files_is_an_index_error():
    with pytest.raises(IndexError):
        default_collate([x for x in [None, None] if x is not None])


def test_a_sound_picture_above_the_limit(monkeypatch):
    assert 2 * Image.MAX_IMAGE_PIXELS == 178_956_970
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 30_000)
    with pytest.raises(Image.DecompressionBombError, match="exceeds limit of 60000 pixels"):
        Image.open(io.BytesIO(PNG))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60_000)
    with pytest.warns(Image.DecompressionBombWarning):
        assert Image.open(io.BytesIO(PNG)).size == (256, 256)


@pytest.mark.parametrize(
    "text",
    [
        "PIL.UnidentifiedImageError: cannot identify image file '/data/pets/train/Cat/666.jpg'",
        "PIL.UnidentifiedImageError: cannot identify image file '/data/processed/.DS_Store'",
        "Image.DecompressionBombError: Caught DecompressionBombError in DataLoader worker process 2.",
        "RuntimeError: Image is incomplete or truncated",
    ],
)
def test_texts_of_other_files_and_decoders(text, says):
    says("DP20", text)


@pytest.mark.parametrize(
    "text",
    [
        "OSError: image file is truncated (0 bytes not processed)",  # ComfyUI, labelme, bots
        "OSError: broken data stream when reading image file",  # web UIs, games' maps
        "OSError: Truncated File Read",
        "WARNING train: /data/train/images/7.jpg: ignoring corrupt image/label: image file is truncated (12 bytes not processed)",
        "PIL.UnidentifiedImageError: cannot identify image file <_io.BytesIO object at 0x7f9c489460a0>",
        "Corrupt JPEG data: 258 extraneous bytes before marker 0xd9",
        "OSError: Caught OSError in DataLoader worker process 3.",
    ],
)
def test_texts_that_say_too_little_or_stop_nothing(text, says):
    with pytest.raises(AssertionError):
        says("DP20", text)
