"""U58: text read in another encoding than its own, and a pickle read as text."""

import gzip
import pickle
import uuid

import pytest
from check_code import span
from stub_box import Box


@pytest.mark.parametrize(
    "codec, text", [("gbk", "naïve café — ½"), ("ascii", "café"), ("cp1252", "标签 训练 数据")]
)
def test_a_utf8_file_is_refused_under_another_codec_and_not_under_its_own(
    says, tmp_path, codec, text
):
    path = tmp_path / "train.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnicodeDecodeError) as error:
        path.read_text(encoding=codec)
    says("U58", f"UnicodeDecodeError: {error.value}")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "start, content", [("8004", pickle.dumps([1])), ("1f8b", gzip.compress(b"text", mtime=0))]
)
def test_what_is_no_text_fails_at_its_start_and_the_first_bytes_name_it(
    says, tmp_path, start, content
):
    path = tmp_path / "vocabulary"
    path.write_bytes(content)
    with pytest.raises(UnicodeDecodeError) as error:
        path.read_text(encoding="utf-8")
    says("U58", f"UnicodeDecodeError: {error.value}")
    assert path.read_bytes()[:2].hex() == start


def test_a_table_in_gb18030_is_read_by_its_name(says, tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("标签", encoding="gb18030")
    with pytest.raises(UnicodeDecodeError) as error:
        path.read_text(encoding="utf-8")
    says("U58", f"UnicodeDecodeError: {error.value}")
    assert path.read_text(encoding="gb18030") == "标签"


@pytest.mark.parametrize(("content", "start", "utf8"), [
    (pickle.dumps([1]), "80", False),
    (gzip.compress(b"text", mtime=0), "1f8b", False),
    ("标签".encode("utf-16"), "fffe", False),
    ("标签".encode("gb18030"), "b1ea", False),
    ("标签".encode(), "e6a0", True),
    (b"plain", "706c", True),
], ids=["pickle", "gzip", "utf-16", "gb18030", "utf-8", "ascii"])  # fmt: skip
def test_the_check_names_the_start_and_whether_the_file_is_utf8(tmp_path, content, start, utf8):
    told = checked(tmp_path, content)
    assert told[0].split()[1].startswith(start)
    assert (told[1:] == ["file is UTF-8"]) is utf8
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        assert not utf8
    else:
        assert utf8


OLD = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


def test_the_check_names_the_systems_choice_and_calls_the_file_sound_under_a_wrong_one(tmp_path):
    told = checked(tmp_path, "标签".encode(), **OLD)
    assert (told[0].split()[0], told[1:]) == ("ANSI_X3.4-1968", ["file is UTF-8"])
    told = checked(tmp_path, "标签".encode(), **OLD | {"PYTHONUTF8": "1"})
    assert told[0].split()[0].lower() == "utf-8"


def checked(folder, content: bytes, **variables) -> list[str]:
    """What the Check prints for a file with this content."""
    place = folder / uuid.uuid4().hex
    place.mkdir()
    (place / "train file.csv").write_bytes(content)
    code = span("U58", "open(f").replace(" FILE", " 'train file.csv'")
    return Box(place).said(code, **variables).splitlines()


def test_a_pickle_of_python_2_is_refused_as_ascii_and_read_as_latin1(says):
    written = b"\x80\x02U\x02\xe9\x81."  # the two bytes as Python 2 kept a str
    with pytest.raises(UnicodeDecodeError) as error:
        pickle.loads(written)
    says("U58", f"UnicodeDecodeError: {error.value}")
    assert pickle.loads(written, encoding="latin1") == "\xe9\x81"
