"""Which first losses in the hundreds are wrong, and other numbers that only look odd."""

import pytest
from remote_gpu_trainer.numbers import checks, metric_series


def entries(text: str) -> list[str]:
    rows = [(at, row.encode()) for at, row in enumerate(text.splitlines(), 1)]
    return [finding.entry for finding in checks.findings(metric_series.of_rows(rows))]


def logged(values, form="step {n} loss {v:.4f}"):
    return "\n".join(form.format(n=n, v=v) for n, v in enumerate(values))


@pytest.mark.parametrize(
    "text",
    [
        logged([820, 410, 160, 90, 60, 44, 37, 33]),
        logged([540, 260, 190, 170, 140, 130, 120, 112]),
        logged([151, 90, 70, 61, 55, 50, 44, 40], "iter {n} total_loss {v}"),
        logged(
            [167.9, 167.8, 167.9, 167.8, 167.9, 167.8], "[1, {n}] Autoencoder Loss (total): {v}"
        ),
    ],
    ids=["CTC", "a VAE", "a detector", "an autoencoder"],
)
def test_a_loss_that_sums_up_may_begin_in_the_hundreds(text):
    assert "P17" not in entries(text)


def test_a_loss_over_tokens_may_not_and_neither_may_one_that_stays():
    fell = logged([312, 290, 240, 180, 130, 90, 60, 40])
    assert "P17" in entries("vocab_size = 32000\n" + fell) and "P17" not in entries(fell)
    assert "P17" in entries(logged([112, 111, 110, 112, 109, 108, 110, 107]))


def test_a_rate_printed_as_zero_while_the_loss_falls_was_rounded():
    falls = [(0, 2.5), (0, 2.1), (0, 1.6), (0, 1.1), (0, 0.8), (0, 0.7)]
    form = "lr: {0:.4f}  loss: {1:.4f}"
    assert "O23" not in entries("\n".join(form.format(*pair) for pair in falls))
    assert "O23" in entries("\n".join(form.format(0, 2.5 + n % 2 / 100) for n in range(8)))


def test_bars_of_other_lengths_are_of_other_work():
    fast = "\n".join(
        f"{n}%|#| {n}/100 [00:10<00:20, {12.1 + n % 3:.1f}it/s] loss 2.{n}" for n in range(10, 40)
    )
    slow = "\n".join(
        f"{n}%|#| {n}/900 [00:10<00:20, {1.1 - n / 1000:.2f}it/s] loss 1.{n}" for n in range(10, 40)
    )
    numbers = metric_series.of_rows(
        [(n, row.encode()) for n, row in enumerate(f"{fast}\n{slow}".splitlines())]
    )
    times = [series.name for series in numbers.series if series.kind == "time"]
    assert sorted(times) == ["/100 s/it", "/900 s/it"]
