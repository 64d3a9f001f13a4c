"""SLURM2: the check shows how long a job has after the warning, and the fix's script hands the signal on."""

import re
import shlex

from remote_gpu_trainer.catalogue import bundle

pytest_plugins = ["tests.engines.slurm"]

TRAIN = """\
import signal, sys, time
def warned(signum, frame):
    print("python has it", flush=True)
    stop.append(1)
stop = []
signal.signal(signal.SIGUSR1, warned)
print("ready", flush=True)
while not stop:
    time.sleep(0.05)
sys.exit(7)
"""


def test_the_check_tells_the_seconds_before_the_kill_and_a_partition_without_grace(slurm, shell_of):
    check = shell_of("SLURM2", "killwait")

    def shown(partition):
        return slurm.client("bash", "-c", check.replace("NAME", partition)).stdout

    assert re.search(r"KillWait\s+= 3 sec", shown("main")) and "GraceTime=4" in shown("main")
    assert "GraceTime=0" in shown("pair")
    assert "send_user_signal" not in shown("main")


def test_the_check_names_the_option_that_sends_the_users_signal(slurm, shell_of):
    path = slurm.at / "slurm.conf"
    before = path.read_text()
    new = "PreemptParameters=send_user_signal"
    old = "SlurmctldParameters=preempt_send_user_signal"
    version = slurm.client("sinfo", "--version").stdout.split()[1]
    since = tuple(int(part) for part in version.split(".")[:2]) >= (23, 2)
    path.write_text(f"{before}{new if since else old}\n")
    slurm.client("scontrol", "reconfigure")
    try:
        check = shell_of("SLURM2", "killwait").replace("NAME", "main")
        assert "send_user_signal" in slurm.client("bash", "-c", check).stdout
    finally:
        path.write_text(before)
        slurm.client("scontrol", "reconfigure")


def test_the_batch_script_passes_the_warning_to_python_and_waits_for_it(slurm):
    code = re.search(r"```bash\n(.*?)```", bundle.load().get("SLURM2").fix, re.S)[1]
    (slurm.home / "train.py").write_text(TRAIN)
    script, log = slurm.home / "warned.sh", slurm.home / "warned.log"
    script.write_text("#!/bin/bash\n" + code.replace("python train.py", "python3 -u train.py"))
    job = slurm.sbatch(script, f"--output={log}", "--time=5")
    slurm.wait(lambda: log.exists() and "ready" in log.read_text(), "no step", seconds=60)
    slurm.client(*shlex.split(f"scancel --batch --signal=USR1 {job}"))  # as --signal=B:USR1 does
    assert slurm.until(job, "FAILED", "COMPLETED", "CANCELLED")["ExitCode"] == "7:0"
    assert "python has it" in log.read_text()
