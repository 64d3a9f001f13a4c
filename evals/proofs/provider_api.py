"""A provider's answers on loopback: an entry's own shell lines run against them with the real curl and jq.

`answers` maps "host/path?query" to a body, or to a list of bodies that are given one after the
other, the last one again and again. A body is an object for 200, or a pair of status and object.
`asked` holds the method and address of each request.
"""

import json
import os
import shlex
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CURL = """#!/bin/bash
args=()
for arg; do
  case $arg in http://* | https://*) arg=http://127.0.0.1:{port}/${{arg#*://}} ;; esac
  args+=("$arg")
done
exec {curl} --noproxy '*' "${{args[@]}}"
"""


class Provider:
    def __init__(self, place: Path):
        self.place, self.answers, self.asked = place, {}, []
        self.bin = place / "bin"
        self.bin.mkdir()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                address = self.path.lstrip("/")
                outer.asked.append((self.command, address))
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                given = outer.answers.get(f"{self.command} {address}", outer.answers.get(address))
                if isinstance(given, list):
                    given = given.pop(0) if len(given) > 1 else given[0]
                status, body = given if isinstance(given, tuple) else (200, given)
                if given is None:
                    status, body = 404, {"error": {"code": "stub/unknown-address"}}
                data = body if isinstance(body, str) else "" if body is None else json.dumps(body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(data.encode())))
                self.end_headers()
                self.wfile.write(data.encode())

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        curl = shutil.which("curl")
        if curl:
            self.program("curl", CURL.format(port=self.server.server_port, curl=curl))

    def program(self, name: str, script: str) -> None:
        """Puts a script on the PATH."""
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def cli(self, name: str, **outputs: object) -> None:
        """A CLI that prints an object as JSON for exactly these arguments, and fails for all others.

        The arguments are the keyword with its underscores as blanks; use `printing` for others.
        """
        self.printing(name, {key.replace("_", " "): value for key, value in outputs.items()})

    def printing(self, name: str, outputs: dict[str, object]) -> None:
        lines = ["#!/bin/bash", 'case "$*" in']
        for number, (arguments, output) in enumerate(outputs.items()):
            text = output if isinstance(output, str) else json.dumps(output, indent=4) + "\n"
            path = self.place / f"{name}.{number}.out"
            path.write_text(text)
            lines.append(f"{shlex.quote(arguments)}) cat {shlex.quote(str(path))} ;;")
        lines += ['*) echo "stub: no answer for $*" >&2; exit 2 ;;', "esac"]
        self.program(name, "\n".join(lines) + "\n")

    def run(self, line: str, **variables: str) -> str:
        """What the line prints, run by bash."""
        done = self.done(line, **variables)
        assert "stub: " not in done.stderr and "command not found" not in done.stderr, done.stderr
        return done.stdout.strip()

    def done(self, line: str, **variables: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", "-c", line],
            cwd=self.place,
            env={"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.place), **variables},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
