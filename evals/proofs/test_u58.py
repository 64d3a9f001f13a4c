"""U58: text read in another encoding than its own, and a pickle read as text."""

import gzip
import pickle

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
    (pickle.dumps([1]), "80 04", False),
    (gzip.compress(b"text", mtime=0), "1f 8b", False),
    ("标签".encode("gb18030"), "b1 ea", False),
    ("标签".encode(), "e6 a0", True),
    (b"plain", "70 6c", True),
], ids=["pickle", "gzip", "gb18030", "utf-8", "ascii"])  # fmt: skip
def test_the_check_names_the_start_and_whether_the_file_is_utf8(tmp_path, content, start, utf8):
    (tmp_path / "train file.csv").write_bytes(content)
    box = Box(tmp_path)
    first, *others = box.said(span("U58", "iconv").replace("FILE", "'train file.csv'")).splitlines()
    assert first.strip().startswith(start)
    assert others == [*["UTF-8"] * utf8, others[-1]]
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        assert not utf8
    else:
        assert utf8


def test_the_last_line_of_the_check_is_the_systems_choice(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"plain")
    box, code = Box(tmp_path), span("U58", "iconv").replace("FILE", "a.csv")
    old = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    assert box.said(code, **old).splitlines()[-1] == "ANSI_X3.4-1968"
    assert box.said(code, **old | {"PYTHONUTF8": "1"}).splitlines()[-1].lower() == "utf-8"
