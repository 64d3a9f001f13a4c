"""Series of numbers from the forms in which frameworks print them."""

import math

import pytest
from remote_gpu_trainer.numbers.metric_series import kind_of, of_rows


def series_of(text):
    return {
        s.name: (s.kind, s.held_out, s.values)
        for s in of_rows([(n, row.encode()) for n, row in enumerate(text.splitlines(), 1)]).series
    }


@pytest.mark.parametrize(
    "row, name, kind, held_out, value",
    [
        (
            "{'loss': 1.8231, 'grad_norm': 2.31, 'learning_rate': 1.9e-05, 'epoch': 0.02}",
            "loss",
            "loss",
            False,
            1.8231,
        ),
        (
            "{'loss': 1.8231, 'grad_norm': 2.31, 'learning_rate': 1.9e-05, 'epoch': 0.02}",
            "grad_norm",
            "norm",
            False,
            2.31,
        ),
        (
            "{'loss': '1.82', 'grad_norm': 'nan', 'learning_rate': '1.9e-05'}",
            "learning_rate",
            "lr",
            False,
            1.9e-05,
        ),
        ("{'eval_loss': 0.5, 'eval_accuracy': 0.81}", "eval_accuracy", "acc", True, 0.81),
        (
            "Epoch 3:  42%|####  | 4211/10010 [1:02:11<1:25:11,  1.25it/s, loss=0.5]",
            "loss",
            "loss",
            False,
            0.5,
        ),
        (
            "Epoch 3:  42%|####  | 4211/10010 [1:02:11<1:25:11,  1.25it/s, loss=0.5]",
            "/10010 s/it",
            "time",
            False,
            0.8,
        ),
        ("iter 100: loss 2.3012, time 12.10ms, mfu 3.10%", "time", "time", False, 0.0121),
        (
            " iteration 100/ 5000 | consumed samples: 800 | lm loss: 6.100000E+00 | loss scale: 65536.0 | grad norm: 1.5 |",
            "lm loss",
            "loss",
            False,
            6.1,
        ),
        (
            " iteration 100/ 5000 | consumed samples: 800 | lm loss: 6.100000E+00 | loss scale: 65536.0 | grad norm: 1.5 |",
            "grad norm",
            "norm",
            False,
            1.5,
        ),
        (
            " iteration 100/ 5000 | consumed samples: 800 | lm loss: 6.100000E+00 | loss scale: 65536.0 | grad norm: 1.5 |",
            "loss scale",
            "scale",
            False,
            65536.0,
        ),
        (
            "Epoch 4 train loss 0.85 train acc 68.0% val loss 2.3 val acc 10.0%",
            "val acc",
            "acc",
            True,
            10.0,
        ),
        ("Validation: loss 0.3, top1 81.2", "val top1", "acc", True, 81.2),
        (
            "Train: 3 [ 100/391 ( 26%)]  Loss: 2.31 (2.35)  Time: 0.412s  LR: 1.000e-03",
            "Loss",
            "loss",
            False,
            2.31,
        ),
        ("|    loss                 | 0.0123       |", "loss", "loss", False, 0.0123),
        ("第 3 轮 损失: 0.693 准确率: 0.5 学习率: 0.001", "轮 损失", "loss", False, 0.693),
        ('{"train_loss": NaN, "step": 4}', "train_loss", "loss", False, math.nan),
        (
            "loss = tensor(nan, device='cuda:0', grad_fn=<NllLossBackward0>)",
            "loss",
            "loss",
            False,
            math.nan,
        ),
        (
            "eta: 0:10:00  iter: 19  total_loss: 5.2  loss_cls: 4.3  time: 0.41  lr: 0.0002  max_mem: 2.1G",
            "max_mem",
            "memory",
            False,
            2.1,
        ),
        (
            "Epoch 6: 100%|##| 30/30 [00:00<00:00, 79.79it/s, train_loss=nan.0]",
            "train_loss",
            "loss",
            False,
            math.nan,
        ),
        (
            "Epoche 10/20 | Verlust (Training): 0,0730 | Genauigkeit: 98,35 % | F1: 0,000",
            "F1",
            "score",
            False,
            0.0,
        ),
        (
            "Epoche 10/20 | Verlust (Training): 0,0730 | Genauigkeit: 98,35 %",
            "Genauigkeit",
            "acc",
            False,
            98.35,
        ),
        ("[época 01] pérdida=0.3740 pérdida_val=0.2065", "pérdida_val", "loss", True, 0.2065),
        ("ステップ  388  損失 nan  正解率 0.125  経過 12.1秒", "損失", "loss", False, math.nan),
        ("第3轮 训练损失：0.0684  验证准确率：96.60%", "验证准确率", "acc", True, 96.6),
        ("[03] L=49.0500 A=0.51", "L", "loss", False, 49.05),
        (
            "[rank1] 08:21:20 ep10 eval loss=0.0883 acc=0.9900 host_ram=58.8/62.8G",
            "val host_ram",
            "ram",
            True,
            58.8,
        ),
        (
            "Pseudo dice [np.float32(0.97), np.float32(0.19), np.float32(0.5)]",
            "Pseudo dice 2",
            "score",
            False,
            0.5,
        ),
        (
            "Epoch(train) [1][ 100/1000] lr: 2e-02 time: 1.8065 data_time: 1.6165 loss: 1.7",
            "data_time",
            "data",
            False,
            1.6165,
        ),
        ("step 10 loss -inf", "loss", "loss", False, -math.inf),
    ],
)
def test_a_number_belongs_to_the_words_before_it(row, name, kind, held_out, value):
    found = series_of(row)[name]
    assert found[:2] == (kind, held_out)
    assert found[2] == pytest.approx([value], nan_ok=True)


@pytest.mark.parametrize(
    "text, name, values",
    [
        ("epoch,train_loss,val_loss\n0,2.3,2.4\n1,2.1,2.2\n", "val_loss", [2.4, 2.2]),
        (
            "  Epoch  GPU_mem  box_loss  cls_loss  Instances  Size\n    1/100  2.1G  1.5  2.5  12  640\n    2/100  2.1G  1.4  2.4  9  640\n",
            "box_loss",
            [1.5, 1.4],
        ),
        ("ep | loss | acc\nep 0 | 0.693 | 0.51\nep 1 | 0.688 | 0.52\n", "loss", [0.693, 0.688]),
    ],
    ids=["commas", "blanks", "bars"],
)
def test_a_column_belongs_to_its_header(text, name, values):
    assert series_of(text)[name][2] == values


@pytest.mark.parametrize(
    "text",
    [
        "GPU 3 of 8",
        "step 10/100",
        "Loaded 3 layers in 2.0 s",
        "loss is what we minimise",
        "torch 2.6.0 loss_fn 0x7f00",
    ],
)
def test_what_is_no_metric_gives_no_series(text):
    assert not [s for s in series_of(text).values() if s[0] == "loss"]


@pytest.mark.parametrize(
    "name", ["train_time", "wall", "eta", "step", "epoch", "num_tokens", "lossless"]
)
def test_these_names_are_no_metrics(name):
    assert kind_of(name)[0] == ""


def test_very_many_rows_are_read_here_and_there():
    rows = [(n, b"loss 0.5") for n in range(1, 60_001)]
    told = of_rows(rows)
    assert (
        told.series[0].rows[0] == 1
        and told.series[0].rows[-1] == 60_000
        and 200 < len(told.series[0].rows) < 300
    )
    assert len(told.rows) == 60_000


def test_the_first_nan_of_a_long_log_is_seen_where_it_is():
    rows = [
        (n, b"step %d loss %.3f" % (n, 9 - n / 5000) if n < 31_415 else b"step %d loss nan" % n)
        for n in range(1, 40_001)
    ]
    series = of_rows(rows).series[0]
    assert (
        next(
            row for row, value in zip(series.rows, series.values, strict=True) if math.isnan(value)
        )
        == 31_415
    )


RUN, NEXT = [2.5, 2.0, 1.5, 1.2, 1.0], [2.4, 1.9, 1.4, 1.1]
STEP, PLAIN = "step {n} loss {v:.4f}", "loss {v:.4f}"


@pytest.mark.parametrize(
    ("form", "between", "after", "is_new"),
    [
        (STEP, "", NEXT, True),  # the count begins again
        (STEP, "", [1.1, 1.0, 0.9], False),
        (STEP, "resumed from checkpoint\n", NEXT, False),
        (PLAIN, "", NEXT, False),
        (PLAIN, "=== Task 2 ===\n", NEXT, True),
        (PLAIN, "WARNING: gradient overflow\n", NEXT, False),
        (PLAIN, "=== Task 2 ===\n", [2.4], False),  # too short for a run
        ("lr = 0.1\nloss {v}", "", NEXT, False),  # such a row stands before every loss
        ("epoch {n} loss {v}", "", [0.9, 0.8, 0.7], True),
    ],
)
def test_the_numbers_of_the_last_run_in_a_log_count(form, between, after, is_new):
    before, behind = (
        "\n".join(form.format(n=n, v=v) for n, v in enumerate(values, form.startswith("epoch")))
        for values in (RUN, after)
    )
    text = f"{before}\n{between}{behind}"
    rows = [(at, row.encode()) for at, row in enumerate(text.splitlines(), 1)]
    [loss] = [one for one in of_rows(rows).series if one.kind == "loss"]
    assert list(loss.values) == (after if is_new else RUN + after)
