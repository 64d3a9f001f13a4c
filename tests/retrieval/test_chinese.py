"""The Chinese of a report is read in the English of the entries."""

import re
from collections import Counter

import pytest
from remote_gpu_trainer.retrieval import chinese


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("显存不足", "CUDA out of memory"),
        ("端口被占用", "Address already in use port"),
        ("多卡训练卡住", "multi-GPU several GPUs ranks training hangs stuck"),
        ("断点续训", "resume training from checkpoint"),
        ("为什么会梯度爆炸呢", "gradients explode exploding gradient norm"),
    ],
)
def test_a_term_is_read_as_the_words_of_the_entries(text, words):
    assert chinese.read(text).english == words


def test_the_longest_term_counts():
    assert "GPU memory" in chinese.read("显存").english
    assert "leak" in chinese.read("显存泄漏").english
    assert chinese.read("显存泄漏").english != chinese.read("显存 泄漏").english


def test_latin_letters_stay_and_count_once():
    reading = chinese.read("A100 上 NCCL 超时")
    assert reading.english.split()[:2] == ["A100", "NCCL"]
    assert reading.whole.count("NCCL") == 1
    assert "超时" in reading.whole


def test_chinese_without_a_term_stays_in_the_translated_text_alone():
    reading = chinese.read("饕餮显存")
    assert "饕餮" in reading.translated
    assert not re.search("[\u4e00-\u9fff]", reading.english)


@pytest.mark.parametrize("text", ["", "CUDA error", "naïve – “quoted”"])
def test_a_text_without_chinese_stays(text):
    assert chinese.read(text) == (text, "", text)


def test_each_line_of_the_file_is_terms_and_english_and_no_term_stands_twice():
    lines = [line for line in chinese.PLACE.read_text("utf-8").splitlines() if line]
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert {len(row) for row in rows} == {2}
    spellings = Counter(term for terms, _ in rows for term in terms.lower().split("|"))
    assert [term for term, count in spellings.items() if count > 1 or not term] == []
    assert all(english.isascii() for _, english in rows)
