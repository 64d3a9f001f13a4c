"""M21: the share that vLLM claims is of the whole card, whoever holds the rest; the check compares it with what is free. vLLM itself needs a GPU."""

import re
import subprocess

import pytest

# What vLLM 0.9 and later print, from public reports: free of total, the share, and what it comes to.
REPORTS = [
    "ValueError: Free memory on device cuda:0 (5.21/79.15 GiB) on startup is less than desired GPU memory utilization (0.9, 71.24 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
    "ValueError: Free memory on device (6.92/8.0 GiB) on startup is less than desired GPU memory utilization (0.9, 7.2 GiB).",
]
NUMBERS = re.compile(
    r"\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\).*\((?P<share>[\d.]+), (?P<size>[\d.]+) GiB\)"
)


@pytest.fixture
def told(tmp_path, shell_of):
    """told([(used, total), …], share): the verdict of the check on each card, in MiB."""

    def run(cards, share):
        lines = "".join(f"{i}, {total - used}, {total}\n" for i, (used, total) in enumerate(cards))
        (tmp_path / "cards").write_text(lines)
        asked = "--query-gpu=index,memory.free,memory.total --format=csv,noheader,nounits"
        smi = tmp_path / "nvidia-smi"
        smi.write_text(f'#!/bin/sh\n[ "$*" = "{asked}" ] && cat {tmp_path}/cards\n')
        smi.chmod(0o755)
        code = shell_of("M21", "memory.free,").replace("share=0.9", f"share={share}")
        out = subprocess.run(
            ["bash", "-c", f"PATH={tmp_path}:$PATH; {code}"], capture_output=True, text=True
        )
        assert not out.stderr
        return [line.split()[2] for line in out.stdout.splitlines()]

    return run


@pytest.mark.parametrize("text", REPORTS)
def test_the_share_of_a_report_does_not_fit_beside_what_is_used_and_half_of_the_rest_does(
    told, says, text
):
    says("M21", text)
    free, total, share, size = (float(number) for number in NUMBERS.search(text).groups())
    assert share * total == pytest.approx(size, abs=0.01) and size > free
    card = (round(1024 * (total - free)), round(1024 * total))
    assert told([card], share) == ["lacks"]
    assert told([card], round(free / total / 2, 3)) == ["has"]


def test_each_card_gets_a_line_and_an_empty_one_has_room_for_the_default(told):
    empty, training = (14, 81559), (60000, 81559)
    assert told([empty, training, empty], 0.9) == ["has", "lacks", "has"]
    assert told([training], 0.25) == ["has"]


def test_the_other_text(says):
    says(
        "M21",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
    )


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is needed, which is larger than the available KV cache memory (1.20 GiB).",
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (9600). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
    ],
)
def test_texts_of_a_request_that_does_not_fit(text, says):
    says("M21", text)
