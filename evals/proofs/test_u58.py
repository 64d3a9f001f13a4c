"""U58: text read in another encoding than its own, and a pickle read as text."""

import gzip
import pickle

import pytest


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
