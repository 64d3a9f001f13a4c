"""Files of the kinds that people have on their disks, with what a look-up should say of each.

Each is lifelike but made up, and differs from the files that the reader was built on: another
format, launcher, scheduler or language. Above the last field of a kind stands its healthy twin.
"""

from __future__ import annotations

from typing import NamedTuple


class File(NamedTuple):
    """A file of a kind. `shows` says what it is about.

    `first` are the ids of which one must come first; none where nothing may be claimed. `says` are
    words that `ask` must hold, `never` words and ids that the answer may not hold anywhere. `quotes`
    are words in its evidence.
    `titles`: titles may be shown to choose from.
    """

    kind: str
    shows: str
    text: str
    first: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    titles: bool = False
    quotes: str = ""


def counted(form: str, values, start: int = 0) -> str:
    """One row for each value, in a form with {n} and {v}."""
    return "".join(form.format(n=n, v=v) + "\n" for n, v in enumerate(values, start))


def falling(first: float, last: float, count: int) -> list[float]:
    """Values that fall from one to the other, ever more slowly, with a little noise."""
    return [
        last + (first - last) * 0.85**n + (first - last) * 0.01 * ((n * 7) % 5 - 2)
        for n in range(count)
    ]


TRACE = "Traceback (most recent call last):\n"
TORCH = "/opt/conda/lib/python3.11/site-packages/torch"
OOM = (
    TRACE + '  File "/workspace/run.py", line 88, in <module>\n    main()\n'
    '  File "/workspace/run.py", line 61, in main\n    out = net(batch)\n'
    f'  File "{TORCH}/nn/modules/module.py", line 1553, in _wrapped_call_impl\n'
    "    return self._call_impl(*args, **kwargs)\n"
    f'  File "{TORCH}/nn/modules/conv.py", line 458, in forward\n    return F.conv2d(input)\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total "
    "capacity of 23.65 GiB of which 812.00 MiB is free. Process 4121 has 22.80 GiB memory in use. "
    "Of the allocated memory 21.90 GiB is allocated by PyTorch, and 410.11 MiB is reserved by "
    "PyTorch but unallocated.\n"
)
KERNEL = (
    "[    0.000000] Linux version 6.8.0-49-generic (buildd@lcy02-amd64-103)\n"
    "[    0.112233] NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.\n"
    "[    1.443322] nvidia: loading out-of-tree module taints kernel.\n"
    "[    1.501122] nvidia-nvlink: Nvlink Core is being initialized, major device number 510\n"
    "[    2.334455] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.82.07\n"
    + "".join(
        f'[   {10 + n}.{n:06d}] audit: type=1400 audit(1763{n:06d}.123:{n}): apparmor="STATUS" '
        f'operation="profile_load" name="snap.p{n}"\n'
        for n in range(40)
    )
)
XID13 = (
    "[{t}.120000] NVRM: Xid (PCI:0000:65:00): 13, pid=7781, name=python, Graphics SM Warp Exception "
    "on (GPC 2, TPC 1, SM 0): Out Of Range Address\n"
)
STEPS = counted(
    "[2026-11-12 03:{n:02d}:11] step {n}0 train_loss={v:.4f} lr=3.0e-04", falling(3.2, 1.1, 24)
)
KERAS = "".join(
    f"Epoch {n}/12\n1563/1563 [==============================] - 41s 26ms/step - loss: {v:.4f} "
    f"- accuracy: {1 - v / 3:.4f} - val_loss: {v + 0.1:.4f} - val_accuracy: {0.95 - v / 3:.4f}\n"
    for n, v in enumerate(falling(1.9, 0.6, 12), 1)
)
LIGHTNING = "".join(
    f"Epoch {n}: 100%|██████████| 391/391 [00:41<00:00,  9.41it/s, v_num=3, train_loss={v:.3f}, "
    f"val_loss={v + 0.05:.3f}]\n"
    for n, v in enumerate(falling(2.2, 0.7, 15))
)
HF = "".join(
    f"{{'loss': {v:.4f}, 'grad_norm': {0.8 + n % 3 / 10:.3f}, 'learning_rate': {2e-5 * (1 - n / 30):.3e}, "
    f"'epoch': {n / 10:.1f}}}\n"
    for n, v in enumerate(falling(2.4, 1.0, 26), 1)
)
LSF_DONE = (
    "\n------------------------------------------------------------\n"
    "Sender: LSF System <lsfadmin@lsf-gpu12>\nSubject: Job {job}: <train> in cluster <euler> {how}\n\n"
    "Job <train> was submitted from host <eu-login-31> by user <me> in cluster <euler> at Mon Nov  2 "
    "09:12:01 2026\nStarted at Mon Nov  2 09:13:11 2026\nTerminated at Mon Nov  2 13:13:15 2026\n"
    "Results reported at Mon Nov  2 13:13:15 2026\n\n{word}\n\nResource usage summary:\n\n"
    "    CPU time   :  14031.11 sec.\n    Max Memory :     48121 MB\n\n"
    "The output (if any) is above this job summary.\n\n"
)
NOT_LOSS = ("P12", "O1", "P17", "O23", "O7", "C1", "C14", "O8")


FILES = [
    # F2, F20: kernel logs.
    File("F2", "a lost card behind a whole boot", KERNEL
         + "[86211.120000] NVRM: Xid (PCI:0000:ca:00): 79, pid='<unknown>', name=<unknown>, GPU has "
         "fallen off the bus.\n[86211.120101] NVRM: GPU 0000:ca:00.0: GPU has fallen off the bus.\n", ("HW1",)),
    File("F2", "journalctl's form, rows remapped", "".join(
        f"Nov 12 03:{n:02d}:11 gpu-node-4 systemd[1]: Started Session {n} of User me.\n" for n in range(45))
        + "Nov 12 03:51:07 gpu-node-4 kernel: NVRM: Xid (PCI:0000:17:00): 63, pid=0, name=, Row Remapper: New "
        "row (0x000000000000abcd) marked for remapping, reset gpu to activate.\n"
        "Nov 12 03:51:08 gpu-node-4 kernel: NVRM: Xid (PCI:0000:17:00): 94, pid=3312, name=python3, Contained: "
        "SM (0x1). RST: No, D-RST: No\n", ("HW2",)),
    File("F20", "a hundred Xids 13 of one program", KERNEL + "".join(
        XID13.format(t=90000 + n) for n in range(120)), ("U22",)),
    File("F20", "Xid 31 by the dozen in today's form", KERNEL + "".join(
        f"[{91000 + n}.100000] NVRM: Xid (PCI:0000:3b:00): 31, pid=91{n:02d}, name=python, Ch 00000008, intr "
        "00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f2a_00000000. Fault is of type "
        "FAULT_PDE ACCESS_TYPE_VIRT_READ\n" for n in range(14)), ("U22",)),
    File("F2", "twin: the same boot without any fault", KERNEL),
    # F1: words of a boot hide nothing.
    File("F1", "a watchdog's boot line and one double bit error", KERNEL.replace(
        "NMI watchdog: Enabled", "iTCO_wdt iTCO_wdt: initialized. watchdog: heartbeat=30 sec") +
        "[5000.000100] NVRM: Xid (PCI:0000:01:00): 48, pid=4411, name=python, DBE (double bit error) ECC Error\n",
        ("HW2",)),
    # F5, F21: several jobs in one file.
    File("F5", "an LSF job that failed, then one that ended well", OOM + LSF_DONE.format(
        job=101, how="Exited", word="Exited with exit code 1.") + STEPS + LSF_DONE.format(
        job=102, how="Done", word="Successfully completed."), (), ("run 2 of 2",)),
    File("F5", "a shell's loop over seeds, the second of three dies", KERAS
         + "run_all.sh: line 7: 21811 Segmentation fault      (core dumped) python main.py --seed $s\n" + KERAS + KERAS,
         (), ("run 2 of 2",)),
    File("F5", "nohup in Chinese, the old run has the error", "nohup: 忽略输入\n" + OOM + "nohup: 忽略输入\n"
         + counted("第{n}轮 训练损失: {v:.4f} 准确率: 0.8", falling(2, .5, 15)) + "训练完成\n", (), ("run 2 of 2",)),
    File("F21", "an in-place error, then the mended program runs to its end", TRACE
         + '  File "fit.py", line 40, in <module>\n    loss.backward()\n'
         f'  File "{TORCH}/autograd/graph.py", line 825, in _engine_run_backward\n    return run()\n'
         "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace "
         "operation: [torch.cuda.FloatTensor [64, 128]] is at version 2; expected version 1 instead.\n"
         + LIGHTNING + "`Trainer.fit` stopped: `max_epochs=15` reached.\n", (), ("run 2 of 2",)),
    File("F5", "twin: the second job is the one that failed", STEPS + LSF_DONE.format(
        job=101, how="Done", word="Successfully completed.") + OOM + LSF_DONE.format(
        job=102, how="Exited", word="Exited with exit code 1."), ("U10",), ("run 2 of 2",)),
    File("F5", "a job that was queued again and goes on from its checkpoint", STEPS + "slurmstepd: error: *** JOB 88211 ON g-12 "
         "CANCELLED AT 2026-11-03T04:11:00 DUE TO JOB REQUEUE ***\nresuming from checkpoint step 230\n" + counted(
         "step {n}0 train_loss={v:.4f}", falling(1.2, 0.9, 20), 24), (), ("run 2 of 2", "run 1: Slurm's job 88211 was ended to be queued again")),
    # F6: a caught cause.
    File("F6", "CUDA is gone, the program goes on without a group and dies", 
         "2026-11-02 10:00:01 WARNING could not start distributed training: ProcessGroupNCCL is only supported "
         "with GPUs, no GPUs found!\n2026-11-02 10:00:01 INFO building model\n" + TRACE
         + '  File "/me/pretrain.py", line 250, in run\n    net = DDP(net)\n'
         f'  File "{TORCH}/distributed/distributed_c10d.py", line 1024, in _get_default_group\n    raise ValueError(\n'
         "ValueError: Default process group has not been initialized, please make sure to call init_process_group.\n",
         ("ENV22",)),
    File("F6", "a port is taken, said in a warning", "[W socket.cpp:464] [c10d] The server socket has failed to "
         "bind to [::]:29500 (errno: 98 - Address already in use).\n[E socket.cpp:500] [c10d] The server socket has "
         "failed to listen on any local network address.\nfalling back to a single process\n" + TRACE
         + '  File "/me/train.py", line 7, in main\n    dist.barrier()\n'
         f'  File "{TORCH}/distributed/distributed_c10d.py", line 1024, in _get_default_group\n    raise ValueError(\n'
         "ValueError: Default process group has not been initialized, please make sure to call init_process_group.\n",
         ("D4",)),
    File("F6", "a checkpoint could not be written, the error is caught, loading it dies",
         STEPS + "ERROR saving failed: [Errno 28] No space left on device\n" + STEPS + TRACE
         + '  File "/me/eval.py", line 9, in main\n    state = torch.load(path)\n'
         f'  File "{TORCH}/serialization.py", line 1326, in load\n    with _open_zipfile_reader(f) as z:\n'
         f'  File "{TORCH}/serialization.py", line 671, in __init__\n    super().__init__(torch._C.PyTorchFileReader(name))\n'
         "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory\n", ("C2", "U6")),
    File("F6", "twin: the same words, and the run goes on well", "2026-11-02 10:00:01 WARNING could not start "
         "distributed training: ProcessGroupNCCL is only supported with GPUs, no GPUs found!\n" + STEPS),
    # F8: first losses.
    File("F8", "a diffusion model in Japanese with a loss summed over pixels", counted(
        "ステップ {n} 損失 {v:.2f}", falling(612, 41, 30)), never=NOT_LOSS),
    File("F8", "Keras' regression on prices", "".join(
        f"Epoch {n}/15\n25/25 - 0s - 4ms/step - loss: {v:.4f} - mae: {v / 9:.4f}\n"
        for n, v in enumerate(falling(48211, 1200, 15), 1)), never=NOT_LOSS),
    File("F8", "YOLO-like columns with a box loss above a hundred", "  Epoch  GPU_mem  box_loss  cls_loss  total\n"
         + counted("  {n}/20  3.1G  {v:.2f}  2.31  {v:.2f}", falling(131, 22, 20)), never=NOT_LOSS),
    File("F8", "twin: a language model whose first loss is 218", "vocab_size: 32000, max_seq_len: 2048 tokens\n"
         + counted("iter {n} | lm loss {v:.3f} | tokens/s 10311", [218, 217, 219, 216, 212, 208, 201, 190, 188, 187, 186, 180]),
         ("P17",)),
    # F9
    File("F9", "a rate of 5e-5 printed with two decimals", counted(
        "Iter {n}: Learning Rate 0.00, Loss {v:.3f}, Acc 0.{n}1", falling(4, 1, 30), 1), never=NOT_LOSS),
    # F10: bars of different work; several curves.
    File("F10", "a bar of training and one of validation, the second slow", "".join(
        f"Train epoch {e}: {p}%|####      | {p * 8}/800 [00:{p % 60:02d}<00:10, {11 + p % 2}.1it/s, loss={3 - e / 4 - p / 900:.3f}]\n"
        for e in range(4) for p in range(10, 100, 9)) + "".join(
        f"Generating: {p}%|####      | {p}/100 [01:{p % 60:02d}<03:10, {9 + p / 30:.2f}s/it]\n" for p in range(4, 99, 2)),
        never=("longer",)),
    File("F10", "thirty runs of a sweep, each with another time of a step", "".join(
        f"trial {t}: hidden={2 ** (t // 4 + 4)} step time {0.02 * 1.2 ** t:.4f} s, val acc 0.{60 + t}, loss {0.9 - t / 100:.3f}\n"
        for t in range(30)), never=("longer", *NOT_LOSS)),
    File("F10", "images of growing size by design: progressive resizing in three stages", "".join(
        f"stage {s} (size {128 * 2 ** s}) epoch {e} loss {2 - s / 2 - e / 20:.3f} time {3 * 4 ** s + e % 2:.1f}s\n"
        for s in range(3) for e in range(10)), never=NOT_LOSS),
    File("F10", "twin: one bar whose steps really take longer", "".join(
        f"{p}%|###  | {p * 10}/1000 [{p // 2:02d}:00<09:00, {0.5 * 1.04 ** p + 0.3 * (p % 3):.2f}s/it, loss={3 - p / 60:.3f}]\n"
        for p in range(1, 100)), (), ("longer",)),
    # Curves of several runs (P12 and others).
    File("curves", "five folds, each from the top again, without a mark of a process", "".join(
        f"Fold {f}\n" + counted("epoch {n} train loss {v:.4f} val loss {v:.4f}", falling(0.9 + f / 5, 0.2, 12), 1)
        for f in range(5)), never=NOT_LOSS),
    File("curves", "two models one after the other, the second with another loss", "Training the autoencoder\n"
         + counted("[{n}/20] loss: {v:.5f}", falling(0.09, 0.01, 20), 1) + "Training the classifier\n"
         + counted("[{n}/20] loss: {v:.5f}", falling(2.30, 1.2, 20), 1), never=NOT_LOSS),
    File("curves", "a sweep over rates whose runs print no epoch number", "".join(
        f"lr = {lr}\n" + counted("loss: {v:.4f}", falling(2.4, end, 15))
        for lr, end in ((1e-1, 0.4), (1e-2, 0.9), (1e-3, 1.7))), never=NOT_LOSS),
    File("curves", "steps count from 0 again, and a curriculum of tasks has higher losses", "".join(
        f"=== Task {t} ===\n" + counted("step {n}00, loss {v:.3f}", falling(1.2 + t, 0.3 + t, 16)) for t in range(4)),
        never=NOT_LOSS),
    File("curves", "a second run appended that has just begun", counted(
        "Epoch [{n}/40] Loss: {v:.4f}", falling(2.3, 0.4, 40), 1) + counted("Epoch [{n}/40] Loss: {v:.4f}", falling(2.3, 0.4, 8), 1),
        never=NOT_LOSS),
    File("curves", "binary heads: a loss at ln 2 only in the first of two runs", counted(
        "Epoch {n} | bce loss 0.693{v}", [n % 3 for n in range(14)]) + counted("Epoch {n} | bce loss {v:.4f}", falling(0.69, 0.2, 14)),
        never=NOT_LOSS),
    File("curves", "GAN: the losses of generator and discriminator move against each other", "".join(
        f"[{e}/30][{b}/9] Loss_D: {max(0.2, 1.3 - e / 25):.4f} Loss_G: {2 + e / 6 + b / 10:.4f} D(x): 0.8\n"
        for e in range(30) for b in range(3)), never=NOT_LOSS),
    File("curves", "twin: one run that diverges", counted(
        "step {n} loss {v:.3f} grad_norm 1.1", [3 - n / 20 for n in range(40)] + [1.2 + n * 0.4 for n in range(25)]), ("P12",)),
    File("curves", "twin: one run that stays at ln(10)", counted(
        "Epoch {n}/30 loss: 2.30{v} acc: 0.1001", [n % 4 for n in range(30)], 1), ("O1",)),
    # F11: certain deaths.
    File("F11", "Singularity's bus error", STEPS + "/usr/bin/bash: line 1: 88121 Bus error               (core dumped) "
         "singularity exec --nv img.sif python train.py\n", ("DP15", "U50")),
    File("F11", "Kubernetes says that the container was killed", STEPS + "command terminated with exit code 137\n"
         "Last State: Terminated\n  Reason: OOMKilled\n  Exit Code: 137\n", ("M3",)),
    File("F11", "docker's word on a container", STEPS + "train_1 exited with code 137\n", ("M3",)),
    File("F11", "accelerate in Chinese: 已杀死", "加载数据集 ...\n" + counted("第{n}轮 损失: {v:.3f}", falling(2, 1, 12))
         + "./train.sh：行 12: 40021 已杀死               accelerate launch train.py\n", ("M3", "U3")),
    File("F11", "numpy's file can't be written: quota", TRACE + '  File "prep.py", line 30, in <module>\n    np.save(out, x)\n'
         '  File "/opt/conda/lib/python3.10/site-packages/numpy/lib/npyio.py", line 545, in save\n    format.write_array(fid, arr)\n'
         "OSError: [Errno 122] Disk quota exceeded\n", ("U7",)),
    File("F11", "twin: a program that prints the word killed of its own", STEPS + "epoch done, 12 stale workers killed by pool shutdown\n" + STEPS),
    # F12: memory messages.
    File("F12", "a process with a cap in a shared card", OOM.replace(
        "812.00 MiB is free. Process 4121 has 22.80 GiB memory in use. ", "9.00 GiB is free. Including non-PyTorch memory, "
        "this process has 14.00 GiB memory in use. 14.10 GiB allowed; ").replace("21.90 GiB", "13.60 GiB"), ("U10",),
        quotes="at its cap"),
    File("F12", "a cap of half the card, with room on the card", OOM.replace(
        "812.00 MiB is free. Process 4121 has 22.80 GiB memory in use. ", "11.00 GiB is free. Including non-PyTorch memory, "
        "this process has 12.00 GiB memory in use. 11.83 GiB allowed; ").replace("21.90 GiB", "11.60 GiB").replace(
        "410.11 MiB", "12.00 MiB"), ("U10",), quotes="this process is at its cap"),
    File("F12", "ROCm's form of the message", OOM.replace("CUDA out of memory", "HIP out of memory"), ("U10",)),
    File("F12", "two cards, the message of the second alone", OOM.replace("GPU 0 has", "GPU 1 has"), ("U10",)),
    File("F12", "twin: a memory summary without a failure", STEPS + "|===========|\n| PyTorch CUDA memory summary, device ID 0 |\n"
         "| CUDA OOMs: 0            |        cudaMalloc retries: 0         |\n| Allocated memory | 21.90 GiB |\n" + STEPS),
    # F15, F24: ends from outside.
    File("F15", "Slurm takes the node for another job", STEPS + "slurmstepd: error: *** JOB 88211 ON g-12 CANCELLED AT "
         "2026-11-03T04:11:00 DUE TO PREEMPTION ***\n", ("SLURM2",), ("preempt",)),
    File("F15", "srun's step is cancelled by its user, each task says so", STEPS + "srun: Job step aborted: Waiting up to 32 "
         "seconds for job step to finish.\nslurmstepd: error: *** STEP 5512.0 ON n1 CANCELLED AT 2026-11-03T04:11:00 ***\n"
         "srun: error: n1: tasks 0-3: Terminated\n", (), ("cancelled",)),
    File("F15", "a notice behind a progress bar in one row", "29947it [35:33,  7.10s/it]\r29948it [35:34,  7.00s/it]slurmstepd: error: "
         "*** JOB 25883692 ON gr015 CANCELLED AT 2026-11-03T04:11:00 ***\n", (), ("job 25883692 was cancelled from outside",)),
    File("F24", "PBS ends the job at its memory", STEPS + "=>> PBS: job killed: mem 135266304kb exceeded limit 134217728kb\n"
         "Terminated\n", (), ("PBS killed the job at its limit of mem",), ("SIGTERM",)),
    File("F24", "LSF says that a program ended, its errors are in another file", STEPS + LSF_DONE.format(
        job=7, how="Exited", word="Exited with exit code 1."), (), ("isn't in this file; look into its standard error",)),
    File("F24", "LSF at the run limit", STEPS + "User defined signal 2\n" + LSF_DONE.format(job=7, how="Exited", word=
         "TERM_RUNLIMIT: job killed after reaching LSF run time limit.\nExited with exit code 140."), (), ("run limit",)),
    File("F24", "SGE kills at h_rt, the shell says so", STEPS + "/opt/sge/default/spool/node3/job_scripts/991: line 14: 20011 "
         "Killed                  python train.py\n", ("M3", "U3")),
    File("F15", "twin: words on a cancelled order in a text that is trained on", STEPS + "sample: 'the JOB was CANCELLED by the "
         "client DUE TO a delay'\n" + STEPS),
    # F16, F26: noise.
    File("F16", "Comet's and MLflow's retries", "COMET WARNING: Failed to connect to api, retrying in 5 s\n" + STEPS
         + "2026/11/03 urllib3.connectionpool WARNING Retrying (Retry(total=4)) after connection broken by "
         "'ConnectionResetError(104, 'Connection reset by peer')': /api/2.0/mlflow/runs/log-batch\n" + STEPS),
    File("F26", "slurmstepd's chdir notice, then a good run", "slurmstepd: error: couldn't chdir to `/scratch/old': No such file "
         "or directory: going to /tmp instead\n" + LIGHTNING),
    File("F26", "advice in a deprecation", "FutureWarning: You are using `torch.load` with `weights_only=False`. To fix this "
         "error, set the option.\n/opt/lib/x.py:7: UserWarning: errors may occur, see options to fix this error\n" + HF
         + "{'train_runtime': 311.2, 'train_loss': 1.4, 'epoch': 2.6}\n"),
    File("F26", "nvidia-smi -q of a sound card beside a run", "        Uncorrectable Error : 0\n        Remapping Failure Occurred : No\n"
         "        Pending : No\n" + STEPS),
    File("F16", "one request failed, then the last epoch and the trainer's end",
         "Epoch 498: 100%|##########| 343/343 [03:57<00:00,  1.45it/s, v_num=6y5l, train_loss=0.307]\n"
         "wandb: ERROR Error while calling W&B API: context deadline exceeded (<Response [500]>)\n"
         "Epoch 499: 100%|##########| 343/343 [03:57<00:00,  1.45it/s, v_num=6y5l, train_loss=0.306]\n"
         "`Trainer.fit` stopped: `max_epochs=500` reached.\nwandb: Waiting for W&B process to finish... (success).\n"
         "wandb: Synced 6 W&B file(s), 0 media file(s), 2 artifact file(s) and 0 other file(s)\n"
         "wandb: Find logs at: ./wandb/run-20260912_135857-x3bw6y5l/logs\n"),
    File("F16", "W&B out of reach for a while, in a run that went on", STEPS
         + "wandb: Network error (ReadTimeout), entering retry loop.\n" + STEPS
         + "wandb: ERROR Error while calling W&B API: context deadline exceeded (<Response [500]>)\n" + STEPS),
    File("F16", "twin: the same noise, and a real end", "COMET WARNING: Failed to connect to api, retrying in 5 s\n" + STEPS + OOM, ("U10",)),
    # F22, F28: the user's own.
    File("F28", "a dictionary's key in a program of its own, R beside it", "Loading required package: reticulate\n" + TRACE
         + '  File "/home/me/prep/labels.py", line 12, in <module>\n    y = table[name]\nKeyError: \'cat_7\'\n', (), ("KeyError",)),
    File("F28", "a Julia program's own error", "ERROR: LoadError: UndefVarError: `opt_state` not defined\nStacktrace:\n [1] "
         "top-level scope\n   @ ~/flux/train.jl:31\nin expression starting at /home/me/flux/train.jl:31\n", titles=True),
    File("F28", "an open of a missing file", TRACE + '  File "/home/me/x.py", line 3, in <module>\n    open("cfg.yml")\n'
         "FileNotFoundError: [Errno 2] No such file or directory: 'cfg.yml'\n", (), ("a path that isn't there",), ("DP19",)),
    File("F28", "twin: a library's refusal at the same place", TRACE + '  File "/home/me/x.py", line 3, in <module>\n    loss.backward()\n'
         f'  File "{TORCH}/_tensor.py", line 522, in backward\n    torch.autograd.backward()\n'
         "RuntimeError: element 0 of tensors does not require grad\n", ("O3",)),
    # One each of the others.
    File("F3", "NCCL's last error in a long log", STEPS * 3 + TRACE + f'  File "{TORCH}/distributed/distributed_c10d.py", line 4812, in barrier\n'
         "    work = group.barrier(opts=opts)\ntorch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, unhandled cuda "
         "error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
         "Cuda failure 802 'system not yet initialized'\n", ("ENV10", "ENV12", "HW7", "HW4", "HW5", "HW6", "ENV14", "ENV15", "ENV16", "ENV26")),
    File("F4", "a sound nvidia-smi -q with retired pages", "==============NVSMI LOG==============\nAttached GPUs : 1\n    Retired Pages\n"
         "        Single Bit ECC              : 0\n        Double Bit ECC              : 0\n        Pending Page Blacklist      : No\n"
         "    ECC Errors\n        Volatile\n            SRAM Uncorrectable : 0\n            DRAM Uncorrectable : 0\n"),
    File("F4", "corrected errors, and a row that waits for a reset", "Attached GPUs : 1\n    Product Name    : NVIDIA A100\n    ECC Errors\n        Volatile\n"
         "            DRAM Correctable              : 177\n            DRAM Uncorrectable            : 0\n    Remapped Rows\n"
         "        Correctable Error                 : 1\n        Uncorrectable Error               : 0\n        Pending                           : Yes\n"
         "        Remapping Failure Occurred        : No\n", (), ("reset the card",), ("No error found",)),
    File("F4", "an idle card under Windows", "==============NVSMI LOG==============\nAttached GPUs                 : 1\n"
         "    Driver Model\n        Current                   : WDDM\n        Pending                   : WDDM\n    MIG Mode\n        Current                   : N/A\n"
         "        Pending                   : N/A\n    FB Memory Usage\n        Total                     : 24564 MiB\n    Inforom Version\n        ECC Object                : 6.16\n",
         (), ("No error found",)),
    File("F13", "processes tear an out-of-memory error apart", "loading\n" + OOM.partition("torch.Out")[0] + "torch.cudatorch.cuda.OutOfMemoryErrortorch.cudaOutOfMemoryError.: "
         ".: OutOfMemoryErrorCUDA out of memory. Tried to allocate 56.00 MiB. GPU OutOfMemoryError\n: \nCUDA out of memory. Tried to allocate 56.00 MiB. GPU CUDA out of memory. "
         "Tried to allocate 56.00 MiB. GPU \n", ("U10",)),
    File("F7", "a hole of NULs before a good run's end", "\0" * 3000 + STEPS),
    File("F13", "two ranks' last exceptions run into one another", TRACE + TRACE + '  File "/me/t.py", line 9\n  File "/me/t.py", line 9\n'
         "    x = (1,\n    x = (1,\n         ^         ^\nSyntaxErrorSyntaxError: : '(' was never closed'(' was never closed\n", (), ("SyntaxError`",), ("SyntaxErrorSyntaxError",)),
    File("F13", "nothing of two ranks' exceptions is whole but the place", "loading\n  File \"t.py\", line 232\n  File \"t.py\", line 232\n"
         "    optim='x'\noptim='x'\n    ^\n    SyntaxError^\n: SyntaxErrorinvalid syntax: \ninvalid syntax\n", (), ("can't read the program: t.py line 232",)),
    File("F17", "a task hangs in Lustre", "[Tue Nov  3 04:25:12 2026] INFO: task python3:5521 blocked for more than 122 seconds.\n"
         "[Tue Nov  3 04:25:12 2026]       Not tainted 5.14.0-427.el9.x86_64 #1\n[Tue Nov  3 04:25:12 2026] task:python3  state:D stack:0 pid:5521\n"
         "[Tue Nov  3 04:25:12 2026] Call Trace:\n[Tue Nov  3 04:25:12 2026]  cl_sync_io_wait+0x1d1/0x2b0 [obdclass]\n"
         "[Tue Nov  3 04:25:12 2026]  ll_file_io_generic+0x3ef/0x8f0 [lustre]\n", titles=True),
    File("F17", "another node fails and Slurm ends the step", STEPS + "srun: error: Node failure on g44\nsrun: Job step aborted: Waiting up to 32 seconds\n"
         "slurmstepd: error: *** STEP 77.0 ON g41 CANCELLED AT 2026-11-03T03:17:51 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n", ("SLURM8",), ("node failed",)),
    File("F23", "a dump of arguments", "Namespace(rank=0, world_size=1, error='none', local_rank=0)\nrank: 0\nresume: False\nerror_rate: 0.1\n" + STEPS),
    File("F25", "a taken port, then a watchdog's abort in the second launch", "[W socket.cpp:464] [c10d] The server socket has failed to bind to "
         "[::]:29500 (errno: 98 - Address already in use).\n" + TRACE + '  File "/me/train.py", line 30, in <module>\n    dist.init_process_group("nccl")\n'
         "RuntimeError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: true, code: -98, name: EADDRINUSE\n"
         "nohup: ignoring input\n" + STEPS + "[rank1]:[E1103 04:11:00.123 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: "
         "WorkNCCL(SeqNum=811, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n",
         ("D20",), ("run 2 of 2", "line 5")),
    File("F27", "a rank's own error names the rank", STEPS + "[rank3]: " + OOM.replace("\n", "\n[rank3]: ").rstrip() [:-len("[rank3]:")] + "\n", ("U10",)),
]  # fmt: skip
