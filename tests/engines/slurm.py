"""A real Slurm on this machine: munged, slurmctld and slurmd as root, without systemd, in a folder of its own.

Three nodes on one host: `gpu` has 2 GPUs (character devices that copy /dev/null), `localhost` and `z` form the partition `pair` for jobs of
several nodes; the first has a name that a rendezvous can look up.
Partition `high` takes the node of `main` away: the jobs there are requeued, with 4 s of grace.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

INSTALL = "apt-get install -y --no-install-recommends slurm-wlm slurmctld slurmd slurm-client munge, as root"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "scancel", "srun")

CONFIG = """\
ClusterName=t
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={at}/munge/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool-%n
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd-%n.pid
SlurmctldLogFile={at}/log/slurmctld.log
SlurmdLogFile={at}/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SlurmdParameters=config_overrides
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=100000
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
JobRequeue=1
KillWait=3
MinJobAge=300
InactiveLimit=0
SlurmdTimeout=30
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
Licenses=matlab:4
PlugStackConfig={at}/plugstack.conf
NodeName=gpu NodeHostname={host} NodeAddr=127.0.0.1 Port={gpu} CPUs=4 RealMemory=4000 Gres=gpu:2 Feature=hbm,nvlink State=UNKNOWN
NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 Port={localhost} CPUs=2 RealMemory=2000 State=UNKNOWN
NodeName=z NodeHostname={host} NodeAddr=127.0.0.1 Port={z} CPUs=2 RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes=gpu Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=4 PreemptMode=REQUEUE OverSubscribe=NO
PartitionName=high Nodes=gpu MaxTime=INFINITE State=UP PriorityTier=100 PreemptMode=OFF
PartitionName=pair Nodes=localhost,z MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=OFF
"""
NODES = ("gpu", "localhost", "z")


class Slurm:
    """The clients of one cluster. `env` reaches it, with a home folder of its own."""

    def __init__(self, at: Path):
        self.at = at
        self.home = at / "home"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SLURM_CONF": str(at / "slurm.conf"),
            "LC_ALL": "C.UTF-8",
        }

    def client(self, *command: str, check: bool = True) -> subprocess.CompletedProcess:
        done = subprocess.run(
            command,
            env=self.env,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not check or done.returncode == 0, (
            f"{command}: {done.returncode} {done.stdout}{done.stderr}"
        )
        return done

    def sbatch(self, script: Path, *options: str) -> str:
        """The number of the submitted job."""
        return self.client("sbatch", "--parsable", *options, str(script)).stdout.strip()

    def facts(self, job: str) -> list[dict[str, str]]:
        """What scontrol says of a job, one dict for each task of an array."""
        lines = self.client("scontrol", "show", "job", job, "-o").stdout.strip().splitlines()
        return [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in lines]

    def until(self, job: str, *states: str, seconds: float = 60) -> dict[str, str]:
        """Waits for one of the states; the facts of the job's first task then."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            facts = self.facts(job)
            if all(fact["JobState"] in states for fact in facts):
                return facts[0]
            time.sleep(0.2)
        raise AssertionError(
            f"job {job} is {[fact['JobState'] for fact in facts]} after {seconds} s, not {states}: {facts}"
        )

    def wait(self, true, what: str, seconds: float = 180, log=lambda: "") -> None:
        """The limit is for a cluster that stands still: two ranks on a busy machine take a minute to import PyTorch. `log` gives what the job wrote."""
        wait_for(true, seconds, lambda: f"{what} after {seconds} s\n{self.state()}\n{log()}")

    def state(self) -> str:
        """Nodes, jobs and the end of the controller's log: why a job stands still."""
        shown = [
            self.client(*words.split(), check=False).stdout
            for words in ("sinfo -N -l", "scontrol show jobs -o")
        ]
        return "\n".join(
            [
                *shown,
                *(self.at / "log/slurmctld.log").read_text(errors="replace").splitlines()[-20:],
            ]
        )

    def restart_now(self, job: str, seconds: float = 60) -> None:
        """Slurm holds a requeued job back for two minutes. This skips them.

        Within the same second slurmd refuses it ("Job credential revoked"), so two pass.
        """
        self.until(job, "PENDING", seconds=seconds)
        time.sleep(2)
        self.client("scontrol", "update", f"jobid={job}", "StartTime=now")

    def free_port(self) -> int:
        return free_ports(1)[0]

    def cancel_all(self) -> None:
        """Ends every job and waits for it."""
        self.client("scancel", "--user=root", check=False)
        self.client("scancel", "--user=root", "--signal=KILL", "--full", check=False)
        end = time.monotonic() + 20
        while self.client("squeue", "-h").stdout.strip() and time.monotonic() < end:
            time.sleep(0.2)


@pytest.fixture(scope="session")
def slurm_cluster():
    """A running cluster. Without Slurm or root the test is skipped, or fails under REQUIRE_ENGINES=1."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if missing or os.getuid() != 0:
        (pytest.fail if os.environ.get("REQUIRE_ENGINES") else pytest.skip)(
            f"no Slurm as root here ({', '.join(missing)}): {INSTALL}"
        )
    with ExitStack() as stack:
        at = Path(tempfile.mkdtemp(prefix="slurm", dir="/tmp"))
        stack.callback(shutil.rmtree, at, ignore_errors=True)
        yield start(at, stack, path)


@pytest.fixture
def slurm(slurm_cluster):
    """The cluster, with no job of an earlier test."""
    yield slurm_cluster
    slurm_cluster.cancel_all()


def start(at: Path, stack: ExitStack, path: str) -> Slurm:
    for name in ("munge", "state", "log", "dev", "home", *(f"spool-{node}" for node in NODES)):
        (at / name).mkdir(mode=0o700 if name == "munge" else 0o755)
    (at / "munge/key").write_bytes(os.urandom(128))
    (at / "munge/key").chmod(0o600)
    ports = dict(zip(("port", *NODES), free_ports(1 + len(NODES)), strict=True))
    (at / "slurm.conf").write_text(
        CONFIG.format(host=socket.gethostname().split(".")[0], at=at, **ports)
    )
    (at / "gres.conf").write_text(
        f"AutoDetect=off\nNodeName=gpu Name=gpu File={at}/dev/nvidia[0-1]\n"
    )
    (at / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (at / "plugstack.conf").write_text("")
    for number in range(2):
        os.mknod(at / f"dev/nvidia{number}", 0o20666, os.makedev(1, 3))
    slurm = Slurm(at)
    slurm.env["PATH"] = path
    munge = [
        f"--{name}={at}/munge/{file}"
        for name, file in (
            ("key-file", "key"),
            ("socket", "munge.sock"),
            ("pid-file", "pid"),
            ("log-file", "log"),
            ("seed-file", "seed"),
        )
    ]
    daemon(slurm, stack, "munged", "--foreground", "--force", *munge)
    wait_for(lambda: (at / "munge/munge.sock").exists(), 10, "munged opens no socket")
    daemon(slurm, stack, "slurmctld", "-D", "-f", f"{at}/slurm.conf")
    for node in NODES:
        daemon(slurm, stack, "slurmd", "-D", "-f", f"{at}/slurm.conf", "-N", node)
    idle = ["sinfo", "-h", "-N", "-o", "%N %T"]
    wait_for(
        lambda: (
            len(
                set(
                    re.findall(
                        r"^(\w+) idle$", slurm.client(*idle, check=False).stdout, re.MULTILINE
                    )
                )
            )
            == len(NODES)
        ),
        30,
        f"no idle node, see {at}/log",
    )
    return slurm


def daemon(slurm: Slurm, stack: ExitStack, *command: str) -> None:
    log = stack.enter_context((slurm.at / "log/daemons.log").open("ab"))
    program = shutil.which(command[0], path=slurm.env["PATH"])
    process = subprocess.Popen(
        [program, *command[1:]], env=slurm.env, stdout=log, stderr=log, start_new_session=True
    )
    stack.callback(end, process)


def end(process: subprocess.Popen) -> None:
    """slurmctld takes some seconds to write its state."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_for(true, seconds: float, otherwise) -> None:
    """Until `true()` holds. `otherwise` is the text of the failure, or gives it."""
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, otherwise() if callable(otherwise) else otherwise
        time.sleep(0.05)
