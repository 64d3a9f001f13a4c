"""Messages that say what is wrong and what to do, where a person types what can't work."""

import os
import subprocess
import sys

import pytest

CONFIG = '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 100}'
RGT = [sys.executable, "-m", "remote_gpu_trainer"]


def said(*words: str, **settings) -> tuple[int, str]:
    """(exit code, what stands on stderr)."""
    done = subprocess.run([*RGT, *words], capture_output=True, text=True, timeout=60, **settings)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["probe", "--", "nosuch"], "nosuch: no such file or command; write the program as you"),
        (["fit", "--parameters", "3M"], "pass the model's config.json, or --layers"),
        (["profile", "Vultr"], "there is no page on Vultr; generic-ssh holds for any Linux"),
        (["profile", "runpod", "survive"], "did you mean survives?"),
        (["profile", "runpod", "ssh", "--need", "spot"], "ssh and --need can't be combined; leave"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_message_says_what_to_do(words, text):
    code, errors = said(*words)
    assert code == 2 and errors.startswith("error: ") and text in errors
    assert errors.count("\n") == 1


def test_a_card_of_several_sizes_is_asked_for_by_its_whole_name(tmp_path):
    (tmp_path / "config.json").write_text(CONFIG)
    code, errors = said("fit", str(tmp_path / "config.json"), "--gpu", "A100")
    assert code == 2 and "'A100' names several cards, which differ in memory; give one of" in errors


def test_a_watch_without_a_driver_says_what_to_install(tmp_path):
    code, errors = said("health", "--watch", "1", env={**os.environ, "PATH": str(tmp_path)})
    assert code == 2 and errors.startswith("error: no nvidia-smi on the PATH") and ";" in errors


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights as Unix has them")
def test_a_folder_that_may_not_be_read_is_not_called_empty(tmp_path, monkeypatch):
    from remote_gpu_trainer.logs.files import Unreadable
    from remote_gpu_trainer.lookup.answer import answer_for

    (tmp_path / "rank_0.log").write_text("loss 1\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read what it likes
    with pytest.raises(Unreadable, match="may not be read; make it readable"):
        answer_for(log=str(tmp_path))
