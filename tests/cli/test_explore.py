"""``vpunn explore`` and ``vpunn serve`` as a user starts them: a real process, a real port, a graceful stop."""

import os
import re
import signal
import subprocess
import sys

import pytest

from vpunn.cli.explore import open_source
from vpunn.errors import VpunnError
from vpunn.tree import Tree

httpx = pytest.importorskip("httpx", reason="needs httpx (extra dev)")
pytest.importorskip("starlette", reason="needs starlette (extra web)")


@pytest.fixture(scope="module")
def tree_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("explore") / "tree.csv"
    path.write_text("parent,child\nanimal,bird\nanimal,fish\nbird,owl\n")
    return path


def start(*words):
    """The command as a process, and the line that names its address."""
    code = "import sys; from vpunn.cli import main; sys.argv[0] = 'vpunn'; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    lines = [process.stdout.readline(), process.stdout.readline()]
    found = re.search(r"http://\S+?:\d+/", "".join(lines))
    assert found, (lines, process.stderr.read() if process.poll() is not None else "")
    return process, found[0]


def wait_for(url):
    with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:
        return client.get(url)


@pytest.mark.parametrize(("command", "page"), [("explore", 200), ("serve", 404)])
def test_a_tree_is_served_and_stops_when_told(tree_file, command, page):
    words = [command, tree_file, "--port", "0", *(["--no-browser"] if command == "explore" else [])]
    process, url = start(*words)
    try:
        assert url.startswith("http://127.0.0.1:")
        assert wait_for(url + "api/health").json()["nodes"] == 4
        assert httpx.get(url).status_code == page
        assert httpx.get(url + "api/lca", params={"a": "owl", "b": "fish"}).json()["lca"]["label"] == "animal"
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGTERM) and said == ""


def test_another_host_is_a_decision(tree_file):
    code = "from vpunn.cli import main; main()"
    said = subprocess.run(
        [sys.executable, "-c", code, "serve", str(tree_file), "--host", "0.0.0.0", "--port", "0"],
        capture_output=True,
        text=True,
    )
    assert said.returncode == 1 and "--allow-host 0.0.0.0" in said.stderr
    process, url = start("serve", tree_file, "--host", "0.0.0.0", "--port", "0", "--allow-host", "tree.example")
    try:
        here = url.replace("0.0.0.0", "127.0.0.1")
        assert wait_for(here + "api/health").status_code == 200
        assert httpx.get(here + "api/health", headers={"Host": "tree.example"}).status_code == 200
        assert httpx.get(here + "api/health", headers={"Host": "other.example"}).status_code == 400
    finally:
        process.send_signal(signal.SIGINT)
        _, warned = process.communicate(timeout=60)
    assert "reachable from other machines" in warned


def test_saved_trees_and_unknown_names(tmp_path):
    tree = Tree.from_parents([-1, 0, 0], labels=["a", "b", "c"])
    tree.save(tmp_path / "saved")
    assert open_source(str(tmp_path / "saved")).tree == tree
    with pytest.raises(VpunnError, match="wordnt"):
        open_source("wordnt")
