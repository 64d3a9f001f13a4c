"""One cell's world: a box, a durable place, a metadata service and a network of its own, in namespaces that end with it."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path

from . import shapes

ORACLE = Path("/mnt/oracle")  # what no fault touches
BOX, PLACE, VOLUME, JOB = (
    Path(shapes.BOX),
    Path("/mnt/durable"),
    Path("/mnt/volume"),
    Path("/mnt/job"),
)
JOURNAL, TOLD, ENDED = ORACLE / "journal", ORACLE / "told", ORACLE / "ended"
PROGRAMS = Path(__file__).parent / "programs"
NAME = "bench"
EVERY_MINUTES = 0.05
LOOK_SECONDS = 10  # references/run_script.md: "The runner looks every ten seconds"
BOX_MEGABYTES, VOLUME_MEGABYTES = 96, 96


class World:
    """Box and surroundings. `env`: of every command that a person types."""

    def __init__(self) -> None:
        mount("-t", "tmpfs", "-o", "size=16m", "bench", "/mnt")
        for folder in (ORACLE, BOX, PLACE, VOLUME, JOB):
            folder.mkdir()
        mount("-t", "tmpfs", "-o", f"size={BOX_MEGABYTES}m", "bench", str(BOX))
        mount("-t", "tmpfs", "-o", f"size={VOLUME_MEGABYTES}m", "bench", str(VOLUME))
        # Memory is no durable place: the volume is a file system over it.
        parts = [VOLUME / name for name in ("lower", "upper", "work", "disk")]
        for part in parts:
            part.mkdir()
        options = "lowerdir={},upperdir={},workdir={}".format(*parts[:3])
        mount("-t", "overlay", "-o", options, "bench", str(parts[3]))
        self.disk = parts[3]
        self.attach()
        run("ip", "link", "set", "lo", "up")
        run("ip", "addr", "add", "169.254.169.254/32", "dev", "lo")
        self.notice = ""
        self._serve_metadata()
        (ORACLE / "end.sh").write_text(f"date +%s.%N >>{ENDED}\n")
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("RGT_")},
            "HOME": str(BOX),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }
        self.calls: dict[int, subprocess.Popen] = {}
        self.elsewhere: set[int] = set()  # processes of another machine
        self.boot()

    def boot(self) -> None:
        """Another machine: its own boot id."""
        path = ORACLE / "boot_id"
        fresh = not path.exists()
        path.write_text(f"{uuid.uuid4()}\n")
        if fresh:
            mount("--bind", str(path), "/proc/sys/kernel/random/boot_id")

    def _serve_metadata(self) -> None:
        world = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                known = self.path.endswith("/spot/instance-action") and world.notice
                text = world.notice if known else "token" if self.command == "PUT" else ""
                self.send_response(200 if text else 404)
                self.end_headers()
                self.wfile.write(text.encode())

            do_PUT = do_GET

            def log_message(self, *words):
                """Say nothing."""

        server = http.server.ThreadingHTTPServer(("169.254.169.254", 80), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def serve_ssh(self) -> str:
        """Make the durable place another machine's, by ssh. Gives the name that ssh knows it by."""
        place, home = ORACLE / "ssh", Path.home()
        place.mkdir()
        for key in ("host", "id"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / key))
        shutil.copy(place / "id.pub", place / "authorized_keys")
        server = f"Port 22\nListenAddress 127.0.0.1\nHostKey {place}/host\nAuthorizedKeysFile {place}/authorized_keys\n"
        (place / "sshd_config").write_text(
            server + "StrictModes no\nPidFile none\nPermitRootLogin prohibit-password\n"
        )
        client = f"Host durable\nHostName 127.0.0.1\nIdentityFile {place}/id\nUserKnownHostsFile {place}/known\n"
        (place / "config").write_text(
            client + "StrictHostKeyChecking accept-new\nConnectTimeout 5\n"
        )
        Path("/run/sshd").mkdir(exist_ok=True)
        (home / ".ssh").mkdir(exist_ok=True)
        mount("--bind", str(place), str(home / ".ssh"))
        # What this machine's own shell does at a login is no part of the network.
        (home / ".bashrc").touch()
        mount("--bind", "/dev/null", str(home / ".bashrc"))
        self.elsewhere.add(
            subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", str(place / "sshd_config")]).pid
        )
        return "durable"

    # The job.

    def write_job(self, shape: shapes.Shape, settings: dict, **fields) -> None:
        """The folder that a user starts from: program, settings, job.yaml."""
        for path in PROGRAMS.glob("*.py"):
            shutil.copy(path, JOB)
        told = {"class": shape.kind, "out": shape.out, "journal": str(JOURNAL), **settings}
        (JOB / "settings.json").write_text(json.dumps(told))
        checkpoint = {"folder": shape.out, "pattern": shape.pattern, "save_seconds": 5}
        job = {
            "name": NAME,
            "command": shapes.command(shape),
            "gpus": 0,
            "probe": False,
            "deadline": "1h",
            "checkpoint": checkpoint,
            "resume": shape.resume,
            "results": list(shape.results),
            "durable": {"to": str(PLACE), "what": [shape.out], "every_minutes": EVERY_MINUTES},
            "notify": ["bash", "-c", f'printf "%s\\n" "$RGT_MESSAGE" >>{TOLD}'],
            "at_end": {"do": "run", "command": ["bash", str(ORACLE / "end.sh")]},
            "floors": {"free_gb": 0.001, "free_inodes": 10},
            **fields,
        }
        (JOB / "job.yaml").write_text(json.dumps(job, indent=1))

    def rgt(self, *words: str) -> subprocess.Popen:
        """`rgt` with these words, begun; its output in oracle/calls."""
        with open(ORACLE / "calls", "a") as out:
            out.write(f"\n$ rgt {' '.join(words)}\n")
            out.flush()
            call = subprocess.Popen(
                [sys.executable, "-m", "remote_gpu_trainer", *words],
                cwd=JOB, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.calls[call.pid] = call
        return call

    def ask_status(self) -> subprocess.Popen | None:
        """The run's own `status --json`, begun; None where no run is."""
        script = BOX / "runs" / NAME / "run.sh"
        if not script.exists():
            return None
        call = subprocess.Popen(
            ["bash", str(script), "status", "--json"], env=self.env, cwd="/",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.calls[call.pid] = call
        return call

    def measure_start(self) -> float:
        """Seconds that this machine takes today to start a program such as the runner, beyond a quarter of one."""
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "remote_gpu_trainer", "--help"],
            env=self.env,
            stdout=subprocess.DEVNULL,
        )
        return max(0.0, time.monotonic() - began - 0.25)

    # What faults turn.

    def attach(self, read_only: bool = False) -> None:
        mount("--bind", str(self.disk), str(PLACE))
        if read_only:
            mount("-o", "remount,bind,ro", str(PLACE))

    def detach(self) -> None:
        run("umount", "-l", str(PLACE))

    def fill(self, folder: Path) -> None:
        """Leave not a byte on a disk."""
        with suppress(OSError), open(folder / "ballast", "ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12):
                with suppress(OSError):
                    while file.write(b"\1" * size):
                        pass

    def free(self, folder: Path) -> None:
        with suppress(OSError):
            (folder / "ballast").unlink()

    def vanish(self) -> None:
        """The box is gone, with its processes and its disk."""
        self.kill_all()
        for path in BOX.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    # Processes.

    def processes(self) -> list[int]:
        """Every process of the box: all but this one, the first, and what a person called."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) not in {1, os.getpid(), *self.calls, *self.elsewhere}:
                with suppress(OSError):
                    state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
                    if state != "Z":
                        found.append(int(name))
        return found

    def programs(self) -> list[int]:
        """The trainers that live."""
        found = []
        for pid in self.processes():
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"train.py" in words and b"python" in words[0] and b"launch.py" not in words:
                    found.append(pid)
        return found

    def is_over(self) -> bool:
        """Whether the run on this box has come to its end."""
        ends = ("done", "failed", "unsaved", "preempted")
        return any((BOX / "runs" / NAME / f".{end}").exists() for end in ends)

    def kill(self, pids: list[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_all(self) -> None:
        for call in self.calls.values():
            with suppress(ProcessLookupError):
                call.kill()
                call.wait()
        self.calls.clear()
        for _ in range(200):
            left = self.processes()
            if not left:
                return
            self.kill(left)
            time.sleep(0.02)
        raise AssertionError(f"still there: {left}")


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def mount(*words: str) -> None:
    run("mount", *words)
