"""A line that somebody gives: an id, an exit status, a message, a title; in English and Chinese."""

import pytest
from remote_gpu_trainer.lookup.answer import answer_for


def ids(text):
    return [match["id"] for match in answer_for(text=text).matches]


@pytest.mark.parametrize(("text", "entry"), [("D9", "D9"), (" d9\n", "D9"), ("k8s1", "K8S1")])
def test_an_id_in_any_case_is_that_entry(text, entry):
    first = answer_for(text=text).matches[0]
    assert (first["id"], first["confidence"]) == (entry, "high")


@pytest.mark.parametrize("text", ["A100", "ZZ9", "D999"])
def test_a_text_in_the_form_of_an_id_is_none(text):
    assert ids(text) == []


@pytest.mark.parametrize(
    "text", ["Killed", "killed", "已杀死", "137", "exitcode: -9", "SIGKILL", "退出码 137"]
)
def test_a_line_of_several_causes_names_them_and_the_check_that_decides(text):
    answer = answer_for(text=text)
    assert [match["id"] for match in answer.matches[:2]] == ["M3", "U3"]
    assert answer.matches[0]["confidence"] == "low"
    assert "oom_kill" in answer.matches[0]["check"]
    assert answer.ask.startswith("Several causes print this line: M3, U3")


@pytest.mark.parametrize(
    ("english", "chinese", "entry"),
    [
        ("CUDA out of memory", "显存不足", "U10"),
        ("Address already in use", "端口被占用", "D4"),
        ("loss is nan", "loss变成nan", "P9"),
        ("training is slow", "训练很慢", "U24"),
    ],
)
def test_a_line_is_claimed_in_both_languages(english, chinese, entry):
    assert ids(english)[:1] == ids(chinese)[:1] == [entry]


@pytest.mark.parametrize(
    "text",
    [
        *("how to cook rice", "my car doesn't start", "今天天气怎么样", "it does not work"),
        *("GROMACS mdrun GPU slow pme on cpu", "blender 渲染显存不足"),
    ],
)
def test_a_strange_line_gets_no_claim(text):
    assert ids(text) == []


def test_a_file_keeps_its_limit(tmp_path):
    line = "Address already in use"
    path = tmp_path / "run.log"
    path.write_text(line + "\n")
    assert ids(line)
    assert answer_for(log=str(path)).matches == []


def test_a_provider_leads_a_line_only_with_its_name():
    assert ids("torch.cuda.is_available() returns False")[0] == "ENV22"
    assert ids("torch.cuda.is_available() returns False on GH200")[0] == "LAM13"
