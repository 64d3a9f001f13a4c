"""For each row of the table of detectors lines on which it fires, and last one that looks like them on which it must not."""

EXAMPLES = {
    "trace": (
        "Traceback (most recent call last):",
        "traceback : To enable traceback see",
    ),
    "frame": (
        '  File "train.py", line 3, in main',
        'cannot read File "a.txt", line 3',
    ),
    "exception": (
        "torch.OutOfMemoryError: CUDA out of memory.",
        "an Error: no",
    ),
    "killed": (
        "run.sh: line 3:  4012 Killed   python train.py",
        "skilled labour",
    ),
    "crash": (
        "Fatal Python error: Segmentation fault",
        "default segment: abortion of trials",
    ),
    "cuda error": (
        "RuntimeError: CUDA error: device-side assert triggered",
        "cuda errors: 0",
    ),
    "nccl warning": (
        "node:1:2 [0] NCCL WARN Cuda failure 'out of memory'",
        "NCCL INFO warnings off",
    ),
    "memory kill": (
        "slurmstepd: error: Detected 1 oom_kill event",
        "a room killed by noise",
    ),
    "fatal": (
        "FATAL: checkpoint folder is gone",
        "non-fatal warnings: 3",
    ),
    "no program": (
        "go.sh: line 4: pyhton: command not found",
        "bash: 第 4 行: accelerate: 未找到命令",
        "if it says command not found, install it",
    ),
    "assertion": (
        "Loss.cu:94: block: [0,0,0] Assertion `t >= 0` failed.",
        "assertions are on",
    ),
    "logged error": (
        "ERROR: failed to read shard 7",
        "val error: 0.113",
    ),
    "end": (
        "[rank2]: Segmentation fault (core dumped)",
        "wandb: ERROR retrying",
    ),
    "barrier": (
        "RuntimeError: Rank 3 failed to pass monitoredBarrier in 5000 ms",
        "all ranks passed monitoredBarrier",
    ),
    "nccl error": (
        "ncclInternalError: Internal check failed.",
        "NCCL_DEBUG=INFO",
    ),
    "own nccl": (
        "Error while creating shared memory segment /dev/shm/nccl-1YsMbG (size 7340384)",
        "socketProgress: Connection closed by remote peer node-2<41542>",
    ),
    "watchdog": (
        "[E1120 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout",
        "NCCL watchdog thread started!",
    ),
    "secondary": (
        "RuntimeError: Timed out waiting 4000ms for recv operation to complete",
        "TypeError: __init__() got an unexpected keyword argument 'timeout_s'",
    ),
    "lost peer": (
        "RuntimeError: Connection closed by peer [10.0.0.1]:3000",
        "connection opened by peer",
    ),
    "waited": (
        "[Rank 0] Timeout at NCCL work: 5123",
        "collective operation done",
    ),
    "group": (
        "[PG ID 1 PG GUID 4(tp) Rank 0] Exception (either an error or timeout)",
        "[rank0]: Rank 0 is ready",
    ),
    "enqueued": (
        "Last enqueued NCCL work: 12, last completed NCCL work: 11.",
        "last completed work: 3",
    ),
    "waits in": (
        "Watchdog caught: WorkNCCL(SeqNum=412, OpType=ALLREDUCE)",
        "WorkNCCL(OpType=ALLREDUCE)",
    ),
    "mismatch": (
        "Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=4, OpType=ALLREDUCE)",
        "rank 0 is running",
    ),
    "initiator": (
        "[PG ID 0 PG GUID 0(default_pg) Rank 3] First PG on this rank to signal dumping.",
        "nothing to signal dumping",
    ),
    "notified": (
        "[Rank 1] Observed flight recorder dump signal from another rank via TCPStore.",
        "Received a dump signal due to a collective timeout from this local rank",
    ),
    "native frame": (
        "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96",
        "a frame #3: x",
    ),
    "advice": (
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
        "os.environ['TORCH_USE_CUDA_DSA'] = '1'",
    ),
    "debug level": (
        "2026-11-28 09:22:08,908 DEBUG urllib3: retry on ConnectionError",
        "ERROR train: run it with TORCH_DISTRIBUTED_DEBUG=DETAIL to see more",
    ),
    "warning": (
        "UserWarning: lr_scheduler.step() was called first",
        "no warnings",
    ),
    "step": (
        "epoch 0 step 3 loss 2.7",
        "epoch 3 loss 2.7",
    ),
    "done": (
        "`Trainer.fit` stopped: `max_epochs=10` reached.",
        "loading done",
    ),
    "exit": (
        "  exitcode  : -9 (pid: 12388)",
        "the program exited with code 0",
    ),
    "root cause": (
        "Root Cause (first observed failure):",
        "Root cause: unknown",
    ),
    "ended rank": (
        "  rank      : 2 (local_rank: 2)",
        "local rank: 2",
    ),
    "ended code": (
        "  exitcode  : 1 (pid: 12388)",
        "failed (exitcode: 1) local_rank: 2",
    ),
    "ended signal": (
        "  traceback : Signal 9 (SIGKILL) received by PID 12388",
        "Signal 9 received",
    ),
    "forced": (
        "Unable to shutdown process 702 via Signals.SIGTERM, forcefully exiting via SIGKILL",
        "forcefully exiting the queue",
    ),
    "wrapper": (
        "train.py FAILED",
        "FAILED to read shard 7",
    ),
    "exit code": (
        "failed (exitcode: -9) local_rank: 2 (pid: 12388) of binary: python",
        "exit code 1",
    ),
    "no cause": (
        "Sending process 12386 closing signal SIGTERM",
        "sending process data",
    ),
    "field": (
        "  time      : 2026-11-23_12:46:12",
        "timeline: 3",
    ),
    "rule": (
        "============",
        "== end ==",
    ),
    "own frame": (
        '  File "/usr/lib/python3/site-packages/torch/distributed/run.py", line 1028, in main',
        '  File "/root/code/run.py", line 3, in main',
    ),
}
