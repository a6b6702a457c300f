"""The codes table in real databases: balls as ranges and as prefixes, and sums that a database grouped."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import vpunn
from strategies import random_tree
from vpunn.codes import codes_table
from vpunn.scale import BallSums

RANGE = "SELECT count(*) FROM codes c, codes b WHERE b.node = {} AND c.node BETWEEN b.node AND b.last"


@pytest.fixture(scope="module")
def tree():
    found = random_tree(3000, 4, reach=200)
    return found.relabel([f"n{i}" for i in range(found.n_nodes)])


@pytest.fixture(scope="module")
def sales(tree):
    """Rows at nodes with prices in cents."""
    rng = np.random.default_rng(0)
    nodes = rng.integers(0, tree.n_nodes, 20_000)
    return nodes, rng.integers(-500, 10_000, 20_000)


def test_duckdb(tree, sales):
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb (extra dev)")
    nodes, cents = sales
    codes, rows = codes_table(tree), pa.table({"node": nodes, "cents": cents})
    base = duckdb.connect()
    base.register("codes", codes)
    base.register("sales", rows)
    for ball in (0, 1, 17, 2999):
        assert base.execute(RANGE.format(ball)).fetchone()[0] == tree.size[ball]
        key = codes["path_key"][ball].as_py()
        found = base.execute("SELECT count(*) FROM codes WHERE path_key >= ? AND path_key < ?", [key, key + b"\xff"])
        assert found.fetchone()[0] == tree.size[ball]
    assert base.execute("SELECT node FROM codes ORDER BY path_key").fetchnumpy()["node"].tolist() == list(range(3000))
    grouped = base.sql(
        "SELECT node, count(*) AS weight, sum(cents) AS sum, sum(cents * cents) AS product FROM sales GROUP BY node"
    ).to_arrow_table()
    whole = BallSums.from_rows(tree, nodes, cents)
    sums = BallSums.from_frame(tree, grouped)
    assert sums.exact and (sums.weight, sums.columns, sums.products) == (whole.weight, whole.columns, whole.products)
    price = base.sql(
        "SELECT node, count(*) AS weight, sum(p) AS sum, sum(p * p) AS product FROM "
        "(SELECT node, (cents / 100.0)::DECIMAL(9, 2) AS p FROM sales) GROUP BY node"
    ).to_arrow_table()
    euros = BallSums.from_frame(tree, price)
    assert euros.exact
    labels = tree.labels[:, None]
    direct = vpunn.VPuNNRegressor.from_sums(whole).predict(labels) / 100
    np.testing.assert_allclose(vpunn.VPuNNRegressor.from_sums(euros).predict(labels), direct, rtol=1e-9)


def test_polars(tree, sales):
    polars = pytest.importorskip("polars", reason="needs polars (extra dev)")
    nodes, cents = sales
    codes = polars.from_arrow(codes_table(tree))
    for ball in (0, 17, 1234):
        row = codes.row(ball, named=True)
        inside = codes.filter(polars.col("node").is_between(row["node"], row["last"]))
        key = row["path_key"]
        by_key = codes.filter((polars.col("path_key") >= key) & (polars.col("path_key") < key + b"\xff"))
        assert len(inside) == len(by_key) == tree.size[ball]
    c = polars.col("cents")
    grouped = (
        polars.DataFrame({"node": nodes, "cents": cents})
        .group_by("node")
        .agg(polars.len().alias("weight"), c.sum().alias("sum"), (c * c).sum().alias("product"))
    )
    whole, sums = BallSums.from_rows(tree, nodes, cents), BallSums.from_frame(tree, grouped)
    assert sums.exact and (sums.weight, sums.columns, sums.products) == (whole.weight, whole.columns, whole.products)


def _postgres() -> Path | None:
    """The folder of PostgreSQL's programs: on the path, or where Debian puts them."""
    places = [Path(p) for p in (shutil.which("initdb"),) if p] + sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb")
    )
    return places[-1].parent if places else None


@pytest.fixture
def server(tmp_path):
    """A PostgreSQL of our own on a free loopback port."""
    programs = _postgres()
    if programs is None:
        pytest.skip("needs PostgreSQL's initdb and postgres (Debian: postgresql)")
    psycopg = pytest.importorskip("psycopg", reason="needs psycopg (extra dev)")
    user = None
    if os.getuid() == 0:  # the server refuses to run as root
        import pwd

        try:
            user = pwd.getpwnam("postgres").pw_uid
        except KeyError:
            pytest.skip("needs a user that is not root to run PostgreSQL")
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
        os.chown(tmp_path, user, -1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = tmp_path / "data"
    options = {"user": user, "cwd": tmp_path} if user is not None else {"cwd": tmp_path}
    subprocess.run(
        [programs / "initdb", "-D", data, "-A", "trust", "-U", "me"], check=True, capture_output=True, **options
    )
    command = [
        programs / "postgres",
        "-D",
        data,
        "-p",
        str(port),
        "-c",
        f"unix_socket_directories={tmp_path}",
        "-h",
        "127.0.0.1",
    ]
    with open(tmp_path / "log", "wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log, **options)
    try:
        for _ in range(100):
            try:
                base = psycopg.connect(host="127.0.0.1", port=port, user="me", dbname="postgres", autocommit=True)
                break
            except psycopg.OperationalError:
                try:
                    running.wait(0.1)
                except subprocess.TimeoutExpired:
                    continue
                raise AssertionError((tmp_path / "log").read_text()) from None
        yield base
        base.close()
    finally:
        running.terminate()
        running.wait(20)


@pytest.mark.slow
def test_postgresql(tree, sales, server):
    nodes, cents = sales
    codes = codes_table(tree)
    server.execute("CREATE TABLE codes (label text, node int, last int, depth int, path_key bytea)")
    with server.cursor().copy("COPY codes FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["text", "int4", "int4", "int4", "bytea"])
        for row in zip(*(codes[name].to_pylist() for name in codes.column_names), strict=True):
            copy.write_row(row)
    server.execute("CREATE INDEX ON codes (path_key)")
    server.execute("CREATE TABLE sales (node int, price numeric(9, 2))")
    with server.cursor().copy("COPY sales FROM STDIN") as copy:
        for node, cent in zip(nodes.tolist(), cents.tolist(), strict=True):
            copy.write_row((node, Decimal(cent).scaleb(-2)))
    for ball in (0, 1, 17, 2999):
        assert server.execute(RANGE.format(ball)).fetchone()[0] == tree.size[ball]
        key = codes["path_key"][ball].as_py()
        by_key = "SELECT count(*) FROM codes WHERE path_key >= %s AND path_key < %s || '\\xff'::bytea"
        assert server.execute(by_key, [key, key]).fetchone()[0] == tree.size[ball]
    ordered = [node for (node,) in server.execute("SELECT node FROM codes ORDER BY path_key").fetchall()]
    assert ordered == list(range(3000))
    below = server.execute(
        "SELECT b.label, sum(s.price) FROM codes b JOIN sales s ON s.node BETWEEN b.node AND b.last WHERE b.depth = 1 GROUP BY 1"
    ).fetchall()
    totals = tree.subtree_sum(np.bincount(nodes, cents, minlength=3000).astype(np.int64))
    sold = tree.subtree_sum(np.bincount(nodes, minlength=3000)) > 0
    wanted = {tree.labels[i]: totals[i] for i in np.flatnonzero((tree.depth == 1) & sold)}
    assert {label: int(total * 100) for label, total in below} == wanted
    rows = server.execute("SELECT node, count(*), sum(price), sum(price * price) FROM sales GROUP BY node").fetchall()
    frame = pa.table(dict(zip(("node", "weight", "sum", "product"), map(list, zip(*rows, strict=True)), strict=True)))
    sums = BallSums.from_frame(tree, frame)
    assert sums.exact
    direct = vpunn.VPuNNRegressor.from_sums(BallSums.from_rows(tree, nodes, cents)).predict(tree.labels[:, None]) / 100
    np.testing.assert_allclose(vpunn.VPuNNRegressor.from_sums(sums).predict(tree.labels[:, None]), direct, rtol=1e-9)
