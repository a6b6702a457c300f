"""A server that strangers do harm to still answers, stays small, and ends when it is told to."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time

import pytest

from hostile.servers import DESCRIPTORS, Served, flood, harm
from vpunn import Tree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc, which Linux has")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    labels = ["life", *(f"n{i}" for i in range(1, 40_000))]
    parent = [-1, *(i // 4 for i in range(39_999))]
    return Tree.from_parents(parent, labels=labels).save(tmp_path_factory.mktemp("served") / "tree")


@pytest.fixture
def server(tree):
    with Served(tree) as found:
        yield found


def test_silent_and_half_sent_connections_do_not_keep_others_out(server):
    """More of them than the server has file descriptors, of every kind; the oldest silent one goes first."""
    body = server.head(b"POST /api/table", b"Content-Type: text/csv", b"Content-Length: 1000")
    first = server.connect()
    held = flood(server, 2 * DESCRIPTORS, b"", b"GET /api/hea", body + b"label,x\n", b"\x16\x03\x01", body)
    try:
        assert max(server.health() for _ in range(5)) < 2
        held += flood(server, DESCRIPTORS, b"G")
        assert server.health() < 2
        first.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert first.recv(1) == b""  # closed
        assert len(server.said()) < 1000
        assert server.stop() < 2
        assert server.said() == ""
    finally:
        for sock in [first, *held]:
            sock.close()


def test_half_sent_bodies_are_bounded_in_sum(server):
    server.health()
    before = server.memory()
    head = server.head(b"POST /api/table", b"Content-Type: text/csv", b"Content-Length: 7500000")
    held = []
    for _ in range(60):
        sock = server.connect()
        with contextlib.suppress(OSError):
            sock.sendall(head + b"x" * 7_000_000)
        held.append(sock)
    try:
        assert server.memory() - before < 150e6  # 60 × 7 MB are 420 MB
        assert server.health() < 2
        found = server.ask(b"POST /api/table", b"label,x\nlife,1\n", b"Content-Type: text/csv")
        assert found.startswith(b"HTTP/1.1 201"), found
        held[0].settimeout(5)
        answer = b"408"
        with contextlib.suppress(ConnectionResetError):
            answer = held[0].recv(65536)
        assert b"408" in answer
    finally:
        for sock in held:
            sock.close()


def test_wide_tables_are_refused_and_long_work_ends_with_its_client(server):
    names = b"label," + b",".join(b"c%d" % i for i in range(600_000)) + b"\n"
    wide = server.ask(b"POST /api/table", names + b"life" + b",1" * 600_000, b"Content-Type: text/csv")
    assert wide.startswith(b"HTTP/1.1 413") and b"at most 1,000 columns" in wide
    hidden = server.ask(b"POST /api/table", b'"a\n\n\n\n",' + names, b"Content-Type: text/csv")
    assert hidden.startswith(b"HTTP/1.1 413"), hidden[:500]
    table = b",".join(b"c%d" % i for i in range(900)) + b"\n" + (b",".join([b"n1"] * 900) + b"\n") * 2000
    head = server.head(b"POST /api/table", b"Content-Type: text/csv", b"Content-Length: %d" % len(table))
    held = []
    for _ in range(8):  # more than there are threads for such work
        held.append(server.connect())
        held[-1].sendall(head + table)
    slowest = max(server.health() for _ in range(10))
    assert slowest < 2
    for sock in held:
        sock.close()
    start = time.monotonic()
    found = server.ask(b"POST /api/table", b"label,x\nlife,1\n", b"Content-Type: text/csv", timeout=30)
    assert found.startswith(b"HTTP/1.1 201") and time.monotonic() - start < 10, found
    with server.connect() as sock:
        sock.sendall(head + table)
        time.sleep(0.3)
        assert server.stop() < 2
    assert server.said() == ""


def test_answers_that_nobody_takes_are_cut(server):
    """Clients that ask for much and read nothing: what waits for them is bounded in sum."""
    before = server.memory()
    held = []
    for _ in range(150):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(server.address)
        sock.sendall(server.head(b"GET /api/export?format=csv"))
        held.append(sock)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        assert server.health() < 2
        time.sleep(0.2)
    most = server.memory() - before
    for sock in held:
        sock.close()
    assert most < 600e6
    assert server.stop() < 2


def test_whatever_strangers_send_memory_stays(server):
    found = harm(server, 300, 0)
    assert found["after"] < 1.2 * found["before"] + 2e7, found
    assert "500" not in found["statuses"] and found["statuses"].get("200", 0) > 20, found
    assert server.said() == ""


def test_killed_under_load_and_started_again(tree):
    """Nothing that the server needs is lost with it, and clients see an end, not silence."""
    with Served(tree) as server:
        ended = []

        def load():
            while server.ask(b"GET /api/node?id=@7").startswith(b"HTTP/1.1 200"):
                pass
            ended.append(True)

        clients = [threading.Thread(target=load) for _ in range(8)]
        for client in clients:
            client.start()
        time.sleep(0.5)
        server.process.kill()
        for client in clients:
            client.join(15)
        assert len(ended) == 8
        port = str(server.address[1])
    with Served(tree, "--port", port) as again:
        assert again.health() < 2 and again.stop() < 2


@pytest.mark.slow
def test_fifty_thousand_requests_and_the_memory_is_flat(server):
    import httpx

    with httpx.Client(base_url=server.url) as client:
        paths = [f"/api/node?id=@{i}" for i in range(1000)] + [f"/api/search?q=n{i}" for i in range(1000)]
        for k in range(50_000):
            assert client.get(paths[k % 2000]).status_code == 200
            if k == 5000:
                before = server.memory()
    assert server.memory() < 1.2 * before
    found = harm(server, 5000, 1)
    assert found["after"] < 1.2 * found["before"], found
