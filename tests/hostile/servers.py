"""``vpunn serve`` in a process of its own, with few file descriptors, and clients that do it harm."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

import vpunn

DESCRIPTORS = 256


class Served:
    """A server of a model folder or a tree file: ``with Served(path) as server: …``; it is ended in any case."""

    def __init__(self, path: Path, *options: str, descriptors: int = DESCRIPTORS, command: str = "serve") -> None:
        self.log = path.parent / f"server-{os.urandom(4).hex()}.log"
        words = [sys.executable, "-m", "vpunn", command, str(path), "--port", "0", *options]

        def few() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        place = os.pathsep.join([str(Path(vpunn.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                words,
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=few,
                env={**os.environ, "PYTHONPATH": place},
            )
        assert self.process.stdout is not None
        for line in iter(self.process.stdout.readline, b""):
            if found := re.search(rb"serving (http://\S+)api/", line):
                self.url = found[1].decode().rstrip("/")
                break
        else:
            raise RuntimeError(self.said())
        place_of = urlsplit(self.url)
        self.address = str(place_of.hostname), int(place_of.port or 0)
        until = time.monotonic() + 60
        while b"200" not in self.ask(b"GET /api/ready")[:20] and time.monotonic() < until:
            time.sleep(0.05)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def said(self) -> str:
        """What the server has written to standard error."""
        return self.log.read_text(errors="replace")

    def memory(self) -> int:
        """Its memory, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024  # type: ignore[index]

    def connect(self) -> socket.socket:
        """A connection."""
        return socket.create_connection(self.address, timeout=10)

    def head(self, request: bytes, *more: bytes) -> bytes:
        """The head of a request."""
        lines = [request + b" HTTP/1.1", b"Host: 127.0.0.1:%d" % self.address[1], *more, b"", b""]
        return b"\r\n".join(lines)

    def ask(self, request: bytes, body: bytes = b"", *more: bytes, timeout: float = 10) -> bytes:
        """The answer to a request on a connection of its own; empty if there is none."""
        try:
            with socket.create_connection(self.address, timeout=timeout) as sock:
                length = [b"Content-Length: %d" % len(body)] if body else []
                sock.sendall(self.head(request, b"Connection: close", *length, *more) + body)
                return b"".join(iter(lambda: sock.recv(65536), b""))
        except OSError:
            return b""

    def health(self) -> float:
        """Seconds that ``/api/health`` takes; an error if it does not answer well."""
        start = time.monotonic()
        found = self.ask(b"GET /api/health")
        assert found.startswith(b"HTTP/1.1 200"), found[:200]
        return time.monotonic() - start

    def stop(self) -> float:
        """Seconds that the server takes to end when it is told to."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        return time.monotonic() - start


def flood(server: Served, count: int, *starts: bytes) -> list[socket.socket]:
    """Connections that send one of the beginnings, and then nothing."""
    found = []
    for k in range(count):
        with contextlib.suppress(OSError):
            sock = server.connect()
            found.append(sock)
            sock.sendall(starts[k % len(starts)])
    return found


def hostile_request(server: Served, rng: np.random.Generator) -> tuple[bytes, bytes, list[bytes]]:
    """A request that no honest client sends: its first line, its body and further lines of its head."""
    noise = rng.bytes(int(rng.integers(1, 300)))
    words = [b"@0", b"a", b"%ff", b"9" * 3000, b"%00", b"@99999999", b"%ed%a0%80", b"", b"-1", b"1e999", b"NaN"]

    def word() -> bytes:
        return words[rng.integers(len(words))]

    kinds: list[tuple[bytes, bytes, list[bytes]]] = [
        (b"GET /api/node?id=" + word() + b"&id=" + word(), b"", []),
        (b"GET /api/node?id=" + word(), b"", []),
        (b"GET /api/children?id=@0&count=" + word() + b"&start=" + word(), b"", []),
        (b"GET /api/labels?ids=" + b"0," * int(rng.integers(3000)), b"", []),
        (b"GET /api/export?format=" + [b"csv", b"json", b"html", b"newick", word()][rng.integers(5)], b"", []),
        (b"GET /api/search?q=" + word() * 20, b"", []),
        (b"GET /api/lca?a=" + word() + b"&b=@1", b"", []),
        (b"GET /api/layer.bin?name=" + word() + b"&stat=" + word(), b"", []),
        (b"POST /api/table", b"label,x\n" + b"a,%d\n" % rng.integers(9) * 50, [b"Content-Type: text/csv"]),
        (b"POST /api/table", noise, [b"Content-Type: text/csv"]),
        (b"POST /api/table", b"," * 200_000 + b"\n", [b"Content-Type: text/csv"]),
        (b"POST /api/table", b'"a\n\n\n\n",' + b"b," * 2000, [b"Content-Type: text/csv"]),
        (b"POST /api/table", b"label,x\na,1e308\nb,1e308\n" * 9, [b"Content-Type: text/csv"]),
        (b"POST /api/predict", b"[" * 50_000, [b"Content-Type: application/json"]),
        (b"POST /api/predict", noise, [b"Content-Type: application/json"]),
        (b"POST /api/predict", b'{"texts": ["a"], "texts": ["b"]}', [b"Content-Type: application/json"]),
        (b"POST /api/predict", b'{"X": [[1e999]], "top": 1}', [b"Content-Type: application/json"]),
        (b"POST /api/predict", b'{"texts": ["\\ud800"]}', [b"Content-Type: application/json"]),
        (b"GET /api/tree", b"", [b"Host: evil.example"]),
        (b"GET /api/tree", b"", [b"X: " + b"y" * 60_000]),
        (b"GET /api/tree", b"", [b"Upgrade: websocket", b"Connection: Upgrade"]),
        (b"BREW /" + word(), b"", []),
        (b"GET /api/examples?" + word() + b"=" + word(), b"", []),
        (b"GET /api/triage", b"", []),
        (b"GET /api/confusion?depth=" + word(), b"", []),
        (b"GET /api/rows?id=" + word(), b"", []),
        (b"GET /api/ready?x=" + word(), b"", []),
        (b"POST /api/answers", b"text,label,x0,x1\n" + noise * 3, [b"Content-Type: text/csv"]),
        (b"POST /api/answers", b"label\n" + b'"' * int(rng.integers(2000)), [b"Content-Type: text/csv"]),
        (b"POST /api/triage?target=" + word(), b"label,label\na,b\n", [b"Content-Type: text/csv"]),
        (b"POST /api/predict", b'{"rows": [{"a": 1, "a": 2}]}', [b"Content-Type: application/json"]),
        (b"POST /api/predict", b'{"X": [[' + b"1," * 50_000 + b"1]]}", [b"Content-Type: application/json"]),
        (
            b"POST /api/predict",
            b'{"X": [[1]], "explain": true, "top": ' + word() + b"}",
            [b"Content-Type: application/json"],
        ),
        (noise, b"", []),
        (b"GET /%2e%2e/%2e%2e/etc/passwd", b"", []),
    ]
    return kinds[rng.integers(len(kinds))]


def harm(server: Served, count: int, seed: int) -> dict[str, Any]:
    """Send hostile requests, some only in part; how many were answered with which status, and how memory went."""
    rng, statuses = np.random.default_rng(seed), dict[str, int]()
    before, middle = 0, 0
    held: list[socket.socket] = []
    for k in range(count):
        if k == count // 10:  # all that is made once has been made
            before = server.memory()
        line, body, more = hostile_request(server, rng)
        if k % 10 == 0:  # a connection that is never used up; the server closes it when it needs the room
            whole = server.head(line, b"Content-Length: %d" % (len(body) + 9), *more) + body
            with contextlib.suppress(OSError):
                held.append(server.connect())
                held[-1].sendall(whole[: int(rng.integers(len(whole)))])
        answer = server.ask(line, body, *more)
        status = answer[9:12].decode("latin-1") or "none"
        statuses[status] = statuses.get(status, 0) + 1
        middle = max(middle, server.memory()) if k % 100 == 0 else middle
    found = {
        "statuses": statuses,
        "before": before,
        "most": middle,
        "after": server.memory(),
        "health": server.health(),
    }
    for sock in held:
        sock.close()
    return found


def main() -> int:
    """``python tests/hostile/servers.py FOLDER COUNT SEED``: hostile requests to a model's server; prints what was found."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from hostile.edits import MODELS

    folder, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    bad = 0
    for name in ("tree", "regressor", "numbers", "words"):
        with Served(MODELS[name]().save(folder / f"served-{name}")) as server:
            found = harm(server, count // 4, seed)
            found["stopped"] = server.stop()
            found["log"] = len(server.said())
            wrong = found["after"] > 1.2 * found["before"] or found["stopped"] > 2 or "Traceback" in server.said()
            bad += wrong or "500" in found["statuses"]
            print(name, json.dumps(found), "WRONG" if wrong else "", server.said()[-2000:] if wrong else "", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
