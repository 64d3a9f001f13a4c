"""HUB6: weight files that aren't what lies on the Hub, and what each reader says of them."""

import hashlib

import pytest
import torch
from check_code import span
from stub_box import Box

safetensors = pytest.importorskip("safetensors")
from safetensors.torch import load_file, save_file

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 4976698672\n"
)
PAGE = b"<!DOCTYPE html><html><body>429</body></html>\n"


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"a.weight": torch.randn(64, 64), "b.weight": torch.randn(64)}, path)
    return path


def said(read, *args, **more) -> str:
    with pytest.raises(Exception) as error:
        read(*args, **more)
    return f"{error.type.__name__}: {error.value}"


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda whole: POINTER, "header too large"),
        (lambda whole: PAGE, "header too large"),
        (lambda whole: whole[:-100], "incomplete metadata, file not fully covered"),
        (lambda whole: whole + b"abc", "incomplete metadata, file not fully covered"),
        (lambda whole: b"", "header too small"),
        (lambda whole: bytes(len(whole)), "invalid JSON in header"),
    ],
    ids=["a pointer", "an HTML page", "cut off", "too long", "empty", "zeros"],
)
def test_a_spoiled_file_is_told_by_its_text_and_the_whole_one_loads_again(
    weights, says, spoil, text
):
    whole = weights.read_bytes()
    weights.write_bytes(spoil(whole))
    error = said(load_file, weights)
    assert text in error
    if text != "invalid JSON in header":  # which a file that somebody wrote wrongly gives as well
        says("HUB6", error)
    weights.write_bytes(whole)
    assert load_file(weights)["a.weight"].shape == (64, 64)


def test_zeros_at_the_end_load_without_an_error_and_only_a_checksum_shows_them(weights):
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100] + bytes(100))
    load_file(weights)
    assert hashlib.sha256(weights.read_bytes()).digest() != hashlib.sha256(whole).digest()


@pytest.mark.parametrize(("content", "letter"), [(POINTER, "v"), (PAGE, "<")])
def test_a_pickle_reader_names_the_first_letter_and_the_safe_one_its_number(
    tmp_path, says, content, letter
):
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content)
    plain = said(torch.load, path, weights_only=False)
    assert f"invalid load key, '{letter}'" in plain
    says("HUB6", plain)
    safe = said(torch.load, path)
    assert f"Unsupported operand {ord(letter)}" in safe
    says("HUB6", safe)


def test_a_pointer_has_about_130_bytes():
    assert 120 < len(POINTER) < 140


def test_older_texts_are_found(says):
    for text in ("safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
                 "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"):  # fmt: skip
        says("HUB6", text)


@pytest.mark.parametrize(("spoil", "told"), [
    (lambda whole: POINTER, "version https://git-lfs"),
    (lambda whole: PAGE, "<"),
    (lambda whole: whole[:-100], ""),
    (lambda whole: whole, ""),
], ids=["a pointer", "an HTML page", "cut off", "whole"])  # fmt: skip
def test_the_check_shows_text_at_the_start_or_another_size_but_for_a_whole_file(
    weights, tmp_path, spoil, told
):
    whole = weights.read_bytes()
    blob = tmp_path / "blob"  # as in the Hub's cache: the name is a link
    weights.unlink()
    blob.write_bytes(spoil(whole))
    weights.symlink_to(blob)
    code = span("HUB6", "head -c").replace("FILE", weights.name)
    size, start = (
        Box(tmp_path).run(f"{code} | LC_ALL=C tr -cd '[:print:]\\n'").stdout.split("\n", 1)
    )
    size = int(size.split()[4])
    broken = start.startswith(("version https://git-lfs", "<")) or size != len(whole)
    assert start.startswith(told)
    assert broken is (spoil(whole) != whole)
