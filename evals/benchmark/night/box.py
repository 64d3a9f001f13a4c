"""Process 1 of a box, in namespaces of its own: disks, login, fault and outcome."""

import ctypes
import json
import os
import pty
import shutil
import signal
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from subprocess import check_call

from task import Task, find

HIDDEN = ("/tmp", "/mnt", "/var/tmp", "/var/log", "/srv", "/run", "/dev/shm")
LOGIN_S = 12.0  # until the terminal is closed
GAP_S = 5.0  # how long a reboot takes
QUIET_S = 3.0  # of nothing that runs: then the night ends


class Disk:
    """A file system of the box's own, which can be made full."""

    def __init__(self, at: str | Path, megabytes: int) -> None:
        self.at, self.room = str(at), f"size={megabytes << 20},nr_inodes=20000"
        os.makedirs(at, exist_ok=True)
        check_call(["mount", "-t", "tmpfs", "-o", f"{self.room},mode=1777", "box", self.at])
        self.device = os.stat(at).st_dev

    def resize(self, room: str) -> bool:
        """Change the size and the number of files, if what is there allows it."""
        return os.spawnlp(os.P_WAIT, "mount", "mount", "-o", f"remount,{room}", self.at) == 0

    def fill(self) -> None:
        """Make the disk full (in several tries, as others may be writing)."""
        for extra in (0, 0, 1, 4, 16):
            s = os.statvfs(self.at)
            used = max((s.f_blocks - s.f_bfree) * s.f_frsize, 4096) + extra * 4096
            if self.resize(f"size={used},nr_inodes={s.f_files - s.f_ffree + extra}"):
                break


class Login:
    """An ssh login whose user types `bash go.sh` and closes the terminal."""

    def __init__(self, env: dict, code: Path) -> None:
        self.code, self.text, self.at, self.back, self.open = code, b"", time.time(), None, True
        typed = (
            f'cd "$HOME/proj"; bash go.sh; echo $? > {code}.t; mv {code}.t {code}; exec sleep 9999'
        )
        self.session, self.fd = pty.fork()
        if self.session == 0:
            os.execve("/bin/bash", ["bash", "-c", typed], env)
        os.set_blocking(self.fd, False)

    def poll(self, hang_up: bool = False) -> None:
        """Read the terminal; hang up if asked to, soon after the prompt is back, or late."""
        with suppress(OSError):
            while self.open and (data := os.read(self.fd, 65536)):
                self.text = (self.text + data)[-20000:]
        now = time.time()
        self.back = self.back or (now if self.code.exists() else None)
        if self.open and (hang_up or now > (self.back + 1 if self.back else self.at + LOGIN_S)):
            self.open = False
            for pid, (_, session) in processes().items():
                if session == self.session:
                    send(pid, signal.SIGHUP)
            os.close(self.fd)


def processes() -> dict[int, tuple[str, int]]:
    """Collect ended processes; return the state and session of all others but this one, by pid."""
    found = {}
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            state, _, _, session, *_ = (
                Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            )
            found |= {int(pid): (state, int(session))} if pid != "1" and state != "Z" else {}
    return found


def send(pid: int, number: int) -> None:
    """Send a signal, if the process still exists."""
    with suppress(OSError):
        os.kill(pid, number)


class Box:
    """One night in a box."""

    def __init__(self, config: dict) -> None:
        self.top, self.env, self.task = Path(config["top"]), config["env"], Task(config["task"])
        self.about, self.arm = self.task.about, self.task.fault(config["fault"])
        self.goal = {"ends_with": ["step", self.about["steps"]], "box": "ended"} | self.about
        self.goal |= self.about.get("goals", {}).get(config["fault"], {})
        self.control, self.home, self.volume = (
            self.top / "control",
            self.top / "box/home",
            self.top / "box/mnt/volume",
        )
        self.look, sizes = (
            self.task.judge(),
            {"home": 512, "volume": 512} | self.about.get("disk_mb", {}),
        )
        paths = [os.path.realpath(p) for p in self.env["PATH"].split(":")]
        show = [
            *map(os.path.realpath, config["show"]),
            sys.prefix,
            *map(os.path.dirname, paths),
            *paths,
        ]
        show = [
            p for p in show if p.startswith(tuple(h + "/" for h in HIDDEN)) and os.path.isdir(p)
        ]
        opened = {p: os.open(p, os.O_PATH) for p in [*show, str(self.top)]}
        self.disks = [Disk(p, sizes["home"]) for p in HIDDEN if os.path.isdir(p)]
        os.makedirs("/run/lock")
        for (
            path,
            fd,
        ) in opened.items():  # bound again by what is open, as the new disks hide the paths
            os.makedirs(path, exist_ok=True)
            if ctypes.CDLL(None).mount(
                f"/proc/self/fd/{fd}".encode(), path.encode(), None, 4096, None
            ):
                raise OSError(f"can't bind {path}")
            if path in show:
                check_call(["mount", "-o", "remount,bind,ro", path])
        self.disks += [Disk(self.home, sizes["home"]), Disk(self.volume, sizes["volume"])]
        check_call(["mount", "-o", "remount,bind,ro", "/"])
        shutil.copytree(self.control / "project", self.home / "proj", symlinks=True)
        for name in (
            ".profile",
            ".bashrc",
        ):  # so that a login shell inside a script finds its way as well
            (self.home / name).write_text(
                f'export BOX="{self.top}/box" PATH="{self.env["PATH"]}"\n'
            )
        for name, content in self.task.given().items():
            (self.volume / name).parent.mkdir(parents=True, exist_ok=True)
            (self.volume / name).write_bytes(content)
        if self.arm:
            (self.control / "arm").write_text(json.dumps(self.arm))
        self.events, self.gone, self.two_s, self.start = [], {}, 0.0, time.time()
        self.fault_at = self.ended = self.undo_at = self.login_at = self.hung = self.filled = None
        self.notes, self.logins = [], [Login(self.env, self.control / "code.1")]

    def night(self) -> None:
        """Let the night pass: until endbox, the end of the deadline, or nothing runs any more."""
        quiet = last = time.time()
        while (
            last < self.start + self.about["deadline_s"] + 30
            and last < quiet + QUIET_S
            and not self.ended
        ):
            time.sleep(0.2)
            for login in self.logins:
                login.poll()
            self.read_events()
            running, now = processes(), time.time()
            self.gone |= {
                e[1]: now for e in self.events if e[1] not in running and e[1] not in self.gone
            }
            training = {
                (e[1], e[5]) for e in self.events if e[3] == "step" and e[1] not in self.gone
            }
            self.two_s += now - last if len(training) > len({role for _, role in training}) else 0
            last, quiet = now, now if running or self.login_at else quiet
            if (self.top / "box/ended").exists():
                self.ended = float((self.top / "box/ended").read_text())
            elif self.arm:
                self.carry_out(now, running)

    def read_events(self) -> None:
        """Read what the hooks have reported: time, pid, start or done, hook, number, role."""
        if (self.control / "events").exists():
            lines = (self.control / "events").read_text().rpartition("\n")[0].splitlines()
            self.events = [
                (float(t), int(p), k, h, int(n), r) for t, p, k, h, n, r in map(str.split, lines)
            ]

    def carry_out(self, now: float, running: dict) -> None:
        """Begin, keep up and end the fault."""
        do = self.arm["do"]
        if not self.fault_at and (self.control / "request").exists():
            request, saved = (
                json.loads((self.control / "request").read_text()),
                self.control / "saved",
            )
            where, self.fault_at = (
                Path(saved.read_text() if saved.exists() else request["cwd"]),
                request["at"],
            )
            if do in ("full", "volume"):
                device = next(p for p in (where, *where.parents) if p.exists()).stat().st_dev
                self.filled = (
                    next(d for d in self.disks if d.device == device)
                    if do == "full"
                    else self.disks[-1]
                )
                self.filled.fill()
                self.undo_at = now + self.arm["for_s"]
                self.notes.append(f"full: {self.filled.at}")
            elif do == "tear":
                self.tear(where)
            elif do == "stop":
                self.hung = request["pid"]
            (self.control / "done").touch()
            if do == "reboot":
                send(-1, signal.SIGKILL)
                self.login_at = now + GAP_S
                for login in self.logins:
                    login.poll(hang_up=True)
        if self.undo_at and now >= self.undo_at:
            self.undo_at = None
            self.filled.resize(self.filled.room)
        elif self.undo_at and do == "volume" and os.statvfs(self.filled.at).f_bavail:
            self.filled.fill()
        if self.hung and now > self.fault_at + 1 and running.get(self.hung, "T")[0] not in "TX":
            send(self.hung, signal.SIGSTOP)  # it doesn't wake up again
        if self.login_at and now >= self.login_at:
            self.login_at = None
            self.logins.append(Login(self.env, self.control / "code.2"))

    def tear(self, saved: Path) -> None:
        """Cut what was saved last (in a folder: its newest file of the fault's pattern) in half."""
        for path in sorted(
            filter(Path.is_file, [saved, *saved.rglob(self.arm["tear"])]), key=os.path.getmtime
        )[-1:]:
            before = path.stat()
            os.truncate(path, before.st_size // 2)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            self.notes.append(f"torn: {path.relative_to(self.top)}")

    def outcome(self) -> dict:
        """End all that runs and say what was saved and what it cost."""
        left = (
            []
            if self.ended
            else [Path(f"/proc/{pid}/cmdline").read_text()[:200] for pid in processes()]
        )
        send(-1, signal.SIGKILL)
        time.sleep(0.5)
        for login in self.logins:
            login.poll(hang_up=True)
        self.read_events()
        for disk in self.disks:
            disk.resize(disk.room)
        volume, goal, hooks = find(self.volume, self.look), self.goal, self.about["hooks"]
        best = goal["steps"] if "final" in volume["results"] else min(goal["steps"], volume["step"])
        there = {n: p.read_bytes() for n in self.task.given() if (p := self.volume / n).is_file()}
        done = [e for e in self.events if e[2] == "done"]
        finished = [self.gone.get(e[1], e[0]) for e in done if [e[3], e[4]] == goal["ends_with"]]
        since = min(finished) if finished else self.fault_at
        counted = [h for h in hooks if h == "step" or "most_again" in hooks[h]]
        numbers = {h: [e[4] for e in done if e[3] == h and e[5] == "0"] for h in counted}
        trained, end = (
            max(numbers["step"], default=0),
            self.ended or self.start + self.about["deadline_s"] + 30,
        )
        o = {
            "lost_steps": goal["steps"] - best,
            "billed_s": round(end - self.start, 1),
            "endbox": bool(self.ended),
        }
        o["results_missing"] = [r for r in goal["results"] if r not in volume["results"]]
        o["end_to_endbox_s"] = (
            round(max(0.0, self.ended - since), 1) if self.ended and since else None
        )
        o["over_deadline"] = goal["box"] == "ended" and end > self.start + self.about["deadline_s"]
        o["again"] = {h: len(n) - len(set(n)) for h, n in numbers.items()}
        o |= {
            "two_at_once_s": round(self.two_s, 1),
            "leftover": left,
            "trained_to": trained,
            "notes": self.notes,
        }
        o["past_stop"] = max(0, trained - self.about.get("stop_by", trained))
        o["user_files_changed"] = [
            n for n, data in self.task.given().items() if there.get(n) != data
        ]
        o["fault_at_s"] = round(self.fault_at - self.start, 1) if self.fault_at else None
        o["go_s"] = [
            round(login.back - login.at, 1) if login.back else None for login in self.logins
        ]
        o["terminal"] = [login.text.decode(errors="replace")[-3000:] for login in self.logins]
        o |= {"left_behind": find(self.home, self.look)["results"], "volume": volume["files"]}
        bad = ("lost_steps", "results_missing", "over_deadline", "past_stop", "user_files_changed")
        twice = any(n > hooks[h].get("most_again", n) for h, n in o["again"].items())
        o["ok"] = (
            o["endbox"] == (goal["box"] == "ended") and not twice and not any(o[k] for k in bad)
        )
        return o


if __name__ == "__main__":
    box = Box(json.loads(Path(sys.argv[1]).read_text()))
    box.night()
    (box.control / "result.json").write_text(json.dumps(box.outcome()))
    with tarfile.open(box.control / "keep.tgz", "w:gz", compresslevel=1) as packed:
        for path in (box.home, box.volume):
            packed.add(path, path.name, filter=lambda m: m if m.size < 1 << 20 else None)
