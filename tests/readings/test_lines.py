"""One row a form of a line: what is read of the first, and a line like it of which nothing is."""

import pytest
from remote_gpu_trainer.readings.line import BARE, PART, RUN, read, read_losses
from remote_gpu_trainer.readings.names import kind_of

OPEN = {"is_open": True}
ROWS = [  # (a form, a line, what it says, another line, what that says, {} where it isn't given)
    ("HF Trainer before 5", "{'loss': 0.12, 'grad_norm': 2.5, 'learning_rate': 5e-05, 'epoch': 0.3}",
     {"loss": 0.12, "grad_norm": 2.5, "lr": 5e-05, "epoch": 0.3},
     "{'train_runtime': 100.0, 'train_loss': 0.7, 'epoch': 3.0}", {"epoch": 3.0}),
    ("HF Trainer", "{'loss': '1.472', 'learning_rate': '5e-05', 'epoch': '0.3'}",
     {"loss": 1.472, "lr": 5e-05, "epoch": 0.3},
     "{'lr': 0.001, 'batch_size': 32, 'num_epochs': 10}", {}),
    ("HF's evaluation", "{'eval_loss': 0.5, 'eval_runtime': 10.2, 'epoch': 1.0}",
     {"val_loss": 0.5, "epoch": 1.0}, "{'test_loss': 0.5, 'test_runtime': 10.2}", {}),
    ("HF's length", "  Total optimization steps = 1,000", {"total": 1000, "scope": RUN},
     "  Num Epochs = 3", {}),
    ("a bar with a loss", " 12%|█▏ | 120/1000 [00:10<01:20, 11.2it/s, loss=1.2]",
     {"step": 120, "total": 1000, "loss": 1.2, "rate": 11.2, **OPEN},
     "Map: 100%|████| 1000/1000 [00:01<00:00, 900.12 examples/s]", {}),
    ("a bar without a name", " 12%|█▏        | 120/1000 [00:10<01:20, 11.2it/s]",
     {"step": 120, "total": 1000, "scope": BARE, "rate": 11.2, **OPEN},
     "Loading checkpoint shards:  50%|█████     | 2/4 [00:01<00:01,  1.2it/s]", {}),
    ("a bar of seconds a step", "Steps:  10%|█  | 100/1000 [50:00<7:30:00, 2.00s/it, lr=0.0001, step_loss=0.123]",
     {"step": 100, "total": 1000, "loss": 0.123, "lr": 0.0001, "rate": 0.5, **OPEN},
     "Evaluating:  10%|█  | 100/1000 [50:00<7:30:00, 2.00s/it]", {}),
    ("Lightning", "Epoch 3:  45%|████▌     | 450/1000 [02:13<02:43,  3.37it/s, v_num=0, train_loss_step=1.25, train_loss_epoch=1.5]",
     {"step": 450, "total": 1000, "scope": PART, "epoch": 3, "loss": 1.25, "rate": 3.37, **OPEN},
     "Validation DataLoader 0:  45%|████▌     | 450/1000 [02:13<02:43,  3.37it/s]", {}),
    ("rich", "Epoch 3/9 ━━━━━━━━━━╸━━━━━ 120/500 0:00:10 • 0:00:30 11.2it/s v_num: 0 train_loss: 0.5",
     {"step": 120, "total": 500, "scope": PART, "epoch": 3, "epochs": 9, "loss": 0.5, "rate": 11.2, **OPEN},
     "Downloading ━━━━━━━━━━╸━━━━━ 120/500 0:00:10 • 0:00:30 11.2it/s", {}),
    ("NeMo", "Epoch 0:  10%|█ | 10/100 [00:10<01:30, 1.00it/s, reduced_train_loss=1.5, global_step=9.0]",
     {"step": 9, "scope": RUN, "epoch": 0, "loss": 1.5, "rate": 1.0, **OPEN},
     "global_steps_per_second: 9", {}),
    ("a tutorial", "Epoch [3/10], Step [20/100], Loss: 0.3456",
     {"step": 20, "total": 100, "epoch": 3, "epochs": 10, "loss": 0.3456}, "Epochs: 10, steps: 100", {}),
    ("batches", "Epoch [1/15] Batch [100/938] Loss: 0.0123",
     {"step": 100, "total": 938, "scope": PART, "epoch": 1, "epochs": 15, "loss": 0.0123},
     "batch 64 loss", {}),
    ("two networks", "Epoch [3/700], Batch [100/250], D Loss: 0.1234, G Loss: 1.2345",
     {"step": 100, "total": 250, "scope": PART, "epoch": 3, "epochs": 700}, "D Loss: 0.3", {}),
    ("ImageNet's example", "Epoch: [3][ 20/5005]\tTime  0.3 ( 0.4)\tData  0.1 ( 0.1)\tLoss 6.9e+00 (6.95e+00)\tAcc@1   0.1",
     {"step": 20, "total": 5005, "scope": PART, "epoch": 3, "loss": 6.9},
     "Test: [ 20/5005]\tTime  0.3 ( 0.4)\tLoss 6.9e+00 (6.95e+00)", {}),
    ("MNIST's example", "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.3", {"epoch": 1, "loss": 2.3},
     "Test set: Average loss: 0.0512, Accuracy: 9832/10000 (98%)", {}),
    ("timm", "Train: 0 [  50/1251 (  4%)]  Loss: 6.9 (6.95)  Time: 0.3s,  412.10/s  LR: 1.000e-06  Data: 0.01",
     {"step": 50, "total": 1251, "scope": PART, "epoch": 0, "loss": 6.9, "lr": 1e-06},
     "Test: [  50/1251]  Loss: 6.9 (6.95)", {}),
    ("Swin", "Train: [3/800][20/231]  eta 1:23:45 lr 0.1234  time 0.12 (0.12)  loss 5.1 (5.2)",
     {"step": 20, "total": 231, "scope": PART, "epoch": 3, "epochs": 800, "loss": 5.1, "lr": 0.1234},
     "Test: [3/800]  loss 5.1 (5.2)", {}),
    ("MAE", "Epoch: [0]  [  20/1250]  eta: 0:10:11  lr: 0.000012  loss: 0.9123 (0.9511)  time: 0.31  max mem: 5123",
     {"step": 20, "total": 1250, "scope": PART, "epoch": 0, "loss": 0.9123, "lr": 1.2e-05},
     "Test:  [ 20/250]  eta: 0:10:11  loss: 0.9123 (0.9511)", {}),
    ("MiniMind", "Epoch:[1/2](100/20000) loss:5.123 ppl:167.9 lr:0.0002000",
     {"step": 100, "total": 20000, "scope": PART, "epoch": 1, "epochs": 2, "loss": 5.123, "lr": 0.0002},
     "Epoch(val) [1][100/20000]", {}),
    ("a language model's example", "| epoch   1 |   200/ 2323 batches | lr 20.00 | ms/batch 11.49 | loss  7.64 | ppl  2073.63",
     {"step": 200, "total": 2323, "scope": PART, "epoch": 1, "loss": 7.64, "lr": 20.0},
     "| end of epoch   1 | time: 27.34s | test loss  5.76 | test ppl   316.43", {"epoch": 1}),
    ("its evaluation", "| end of epoch   1 | time: 27.34s | valid loss  5.76 | valid ppl   316.43",
     {"epoch": 1, "val_loss": 5.76}, "| End of training | test loss  5.50 | test ppl   244.6", {}),
    ("plain", "step 10 loss 1.2", {"step": 10, "loss": 1.2}, "loss of 10 packets", {}),
    ("a step alone", "trains step 4", {"step": 4}, "eval every step 100", {}),
    ("nanoGPT", "iter 10: loss 2.3456, time 20.12ms, mfu 30.00%", {"step": 10, "loss": 2.3456},
     "tokens per iteration will be: 491,520", {}),
    ("its evaluation", "step 1000: train loss 1.5, val loss 1.7",
     {"step": 1000, "loss": 1.5, "val_loss": 1.7}, "eval step 10/63 loss 0.4", {}),
    ("its successor", "step:125/6200 val_loss:3.2765 train_time:12345ms step_avg:99.1ms",
     {"step": 125, "total": 6200, "val_loss": 3.2765}, "step_avg:99.1ms", {}),
    ("Megatron", " iteration       10/     100 | consumed samples:          160 | elapsed time per iteration (ms): 123.4"
     " | learning rate: 1.000E-05 | global batch size:    16 | lm loss: 1.234E+00 | loss scale: 1.0 | grad norm: 1.234 |",
     {"step": 10, "total": 100, "lr": 1e-05, "loss": 1.234, "grad_norm": 1.234},
     " loss scale: 65536.0 | number of skipped iterations:   0 |", {}),
    ("torchtitan, coloured", "[titan] - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  7.8123  \x1b[38;2;180;60;0mgrad_norm:  1.2000  "
     "\x1b[38;2;54;234;195mmemory: 10.20GiB(12.34%)  \x1b[34mtps: 1,234", {"step": 10, "loss": 7.8123, "grad_norm": 1.2},
     "[titan] - root - INFO - Training starts at step 1, with total steps 1000 (warmup 200)", {"step": 1}),
    ("JSON", '{"step": 10, "loss": 1.2, "val_loss": 1.3, "lr": 5e-05, "epoch": 0.3}',
     {"step": 10, "scope": RUN, "loss": 1.2, "val_loss": 1.3, "lr": 5e-05, "epoch": 0.3},
     '{"steps": 10, "lr": 5e-05, "loss_fn": 3}', {}),
    ("LLaMA-Factory", '{"current_steps": 10, "total_steps": 100, "loss": 1.2, "lr": 5e-05, "epoch": 0.3, "percentage": 10.0}',
     {"step": 10, "total": 100, "scope": RUN, "loss": 1.2, "lr": 5e-05, "epoch": 0.3}, '{"total_steps": 100}', {}),
    ("ultralytics: its losses are of parts", "      1/100      2.1G      1.234      2.345      1.234         45        640: 100%|██████| 8/8 [00:03<00:00,  2.5it/s]",
     {"epoch": 1, "epochs": 100},
     "                 Class     Images  Instances      Box(P          R      mAP50: 100%|██████| 2/2 [00:00<00:00,  2.5it/s]", {}),
    ("mmengine", "2024/01/01 10:00:00 - mmengine - INFO - Epoch(train)  [1][  50/1000]  lr: 1.0000e-03  eta: 0:10:00  time: 0.2  loss: 0.9",
     {"step": 50, "total": 1000, "scope": PART, "epoch": 1, "lr": 0.001, "loss": 0.9},
     "2024/01/01 10:00:00 - mmengine - INFO - Epoch(val)  [1][  50/1000]  eta: 0:10:00", {}),
    ("mmengine by iterations", "mmengine - INFO - Iter(train) [   50/10000]  base_lr: 1.0e-03 lr: 1.0e-03  loss: 0.9 grad_norm: 3",
     {"step": 50, "total": 10000, "scope": RUN, "lr": 0.001, "loss": 0.9, "grad_norm": 3},
     "mmengine - INFO - Iter(val) [   50/10000]", {}),
    ("detectron2", "[01/01 10:00:00 d2.utils.events]:  eta: 0:10:00  iter: 19  total_loss: 2.3  loss_cls: 1.1  time: 0.2  lr: 0.0001",
     {"step": 19, "loss": 2.3, "lr": 0.0001}, "loss_cls: 1.1", {}),
    ("fairseq", "| INFO | train_inner | epoch 001:    100 / 5000 loss=10.2, nll_loss=9.8, ppl=900, num_updates=100, lr=1.25e-05, gnorm=2.1",
     {"step": 100, "total": 5000, "scope": PART, "epoch": 1, "loss": 10.2, "lr": 1.25e-05, "grad_norm": 2.1},
     "nll_loss=9.8, ppl=900", {}),
    ("DeepSpeed", "[INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[5e-05], mom=[(0.9, 0.999)]",
     {"step": 10, "lr": 5e-05}, "lr=[5e-05]", {}),
    ("torchtune", "1|20|Loss: 1.23:  10%|█         | 20/200 [00:10<01:20,  2.2it/s]",
     {"step": 20, "scope": RUN, "epoch": 1, "loss": 1.23}, "1|20|", {}),
    ("Keras", " 100/469 [=====>........................] - ETA: 3s - loss: 0.3123 - accuracy: 0.91",
     {"step": 100, "total": 469, "loss": 0.3123}, " 100/469 files", {}),
    ("both losses", "Epoch: 0001 loss_train: 1.2 acc_train: 0.5 loss_val: 1.1 acc_val: 0.5",
     {"epoch": 1, "loss": 1.2, "val_loss": 1.1}, "Val loss improved from 0.50 to 0.40", {}),
    ("both, by parts", "Epoch 3 Train: loss 0.3 acc 0.9 | Val: loss 0.4 acc 0.8", {"epoch": 3, "loss": 0.3, "val_loss": 0.4},
     "[Epoch 1/7] Train: 0.1234 | Val: 0.1234", {"epoch": 1, "epochs": 7}),
    ("the total of parts", "Step    100 | loss RAL:   0.1234 | loss CE:   0.1234 | Total loss:   0.2468", {"step": 100, "loss": 0.2468},
     "update 5  step 10240  pi_loss -0.0012  v_loss 1.2345", {}),
    ("Chinese", "第 3 轮 训练损失 0.41 验证损失 0.5 学习率 0.001", {"epoch": 3, "loss": 0.41, "val_loss": 0.5, "lr": 0.001}, "第 3 名", {}),
    ("a decimal comma", "Epoche 3/20 | Verlust (Training): 0,0712 | Verlust (Val): 0,0755", {"epoch": 3, "epochs": 20, "loss": 0.0712, "val_loss": 0.0755},
     "検証損失: 345,081,696.0, loss: 1,234", {}),
    ("a loss of nan", "step 5 loss nan", {"step": 5, "loss": "nan"}, "nanmean of loss", {}),
    ("a checkpoint's step", "saved checkpoint at step 100", {"step": 100}, "best val loss 0.3 at step 500", {}),
    ("an average", "Epoch 3 completed. Average loss: 0.0123", {"epoch": 3, "loss": 0.0123}, "best loss: 0.01", {}),
    ("code", "loss = 2.5", {"loss": 2.5}, "loss = 0.5 * mse(x, y)", {}),
    ("arguments", "step 7 lr 0.1", {"step": 7, "lr": 0.1}, "Namespace(lr=0.1, epoch=100, step=5, batch_size=32)", {}),
]  # fmt: skip


def shown(line: str) -> dict:
    """What a reading says, without what it doesn't."""
    told = {
        key: value
        for key, value in read(line)._asdict().items()
        if value not in (None, "", False) or value == 0 and value is not False
    }
    return {key: "nan" if value != value else value for key, value in told.items()}


@pytest.mark.parametrize(
    ("line", "says", "other", "other_says"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_line_is_read_and_one_like_it_is_not(line, says, other, other_says):
    assert shown(line) == says
    assert shown(other) == other_says


SAID = {  # words of names, as logs print them
    "loss": "train_loss Gen_loss nll 平均损失 训练损失 損失 検証損失 Verlust perda pérdida perte потери 손실",
    "acc": "Acc@1 top1 准确率 精度 acurácia exactitud Genauigkeit точность 正解率 정확도",
    "score": "mAP50-95 bleu f1 Precision 召回率 Präzision Trefferquote precisión sensibilidad",
    "lr": "lr learning_rate lr-AdamW 学习率 aprendizaje",
    "norm": "grad_norm gnorm 梯度范数",
    "scale": "loss_scale grad_scaler",
    "time": "dt 1.2s/it",
    "data": "data_time",
    "ram": "rss 内存",
    "memory": "mem 显存",
    "kl": "approx_kl approxkl",
    "ppl": "perplexity",
    "": "epoch train_time total_time",
}
HELD_OUT = (
    "dev_loss eval_loss evaluate evaluation/loss test_loss testing val_acc valid_ppl validation 测试 测试集 验证 "
    "验证准确率 验证损失 验证集 検証 検証損失 вал validación pérdida_validación validierung"
)


def test_a_name_says_the_kind_of_its_number_and_whether_it_is_of_held_out_data():
    assert {n: kind_of(n)[0] for names in SAID.values() for n in names.split()} == {
        name: kind for kind, names in SAID.items() for name in names.split()
    }
    assert [name for name in HELD_OUT.split() if not kind_of(name)[1]] == []
    assert not any(kind_of(name)[1] for name in ["loss", "train_loss", "训练损失"])


def test_losses_of_parts_are_losses_too():
    assert read_losses("d_loss: 0.3 g_loss: 0.4 step 3") == [0.3, 0.4]
    assert read_losses("loss: 0.3 aux_loss: nan") == [0.3]
    assert read_losses("loss_scale: 65536") == []
