"""The API over a real server: right answers, equal to the library's; clear errors; nothing for strangers."""

import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from vpunn.codes import PadicCode
from vpunn.explanations import describe_ball
from vpunn.hipan import conformal
from vpunn.tree import Tree
from vpunn.web.api import Api, Limits
from vpunn.web.app import MAX_WAITING, Batcher
from vpunn.web.asked import Wanted
from vpunn.web.replies import ApiError
from vpunn.web.routes import ROUTES
from vpunn.web.server import Running, listen
from vpunn.web.subject import Subject

QUESTION = "a small wild cat with a spotted coat that hunts at night"


@pytest.fixture
def get(url):
    with httpx.Client(base_url=url) as client:
        yield lambda path, **query: client.get(path, params=query)


@pytest.fixture
def ask(url):
    with httpx.Client(base_url=url, timeout=60) as client:
        yield lambda **body: client.post("/api/predict", json=body)


# ---- the tree --------------------------------------------------------------------------------------------------------


def test_tree_shape_and_labels(get, subject):
    tree = subject.tree
    found = get("/api/tree").json()
    assert (found["nodes"], found["leaves"], found["depth"]) == (tree.n_nodes, tree.n_leaves, tree.max_depth)
    assert found["p"] == PadicCode(tree).p and found["model"]["input"] == "text"
    shape = get("/api/shape", hash=found["hash"])
    assert shape.headers["cache-control"].endswith("immutable")
    assert np.frombuffer(shape.content, np.uint8).tolist() == tree.depth.tolist()
    assert get("/api/shape", hash="0").status_code == 404
    assert get("/api/labels", ids="0-2,5").json() == [tree.columns["name"][i] for i in (0, 1, 2, 5)]
    assert get("/api/health").json()["status"] == "ok"


def test_node_by_label_and_id(get, subject):
    tree, code = subject.tree, PadicCode(subject.tree)
    i = tree.index("feline.n.01")
    found = get("/api/node", id="feline.n.01").json()
    assert found["id"] == i == get("/api/node", id=f"@{i}").json()["id"] == get("/api/node", id=str(i)).json()["id"]
    assert [step["label"] for step in found["path"]] == list(tree.path(i))
    assert found["codes"] == {mode: code.format(i, mode) for mode in ("int", "digits", "bars", "series", "path")}
    assert (found["size"], found["leaves"], found["children"]) == (
        tree.size[i],
        tree.leaf_counts[i],
        len(tree.children(i)),
    )
    assert (
        found["columns"]["gloss"] == tree.columns["gloss"][i]
        and found["columns"]["offset"] == tree.columns["offset"][i]
    )
    brothers = tree.children(int(tree.parent[i])).tolist()
    at = brothers.index(i)
    neighbours = [None if n is None else n["id"] for n in (found["siblings"]["previous"], found["siblings"]["next"])]
    assert neighbours == [brothers[at - 1] if at else None, brothers[at + 1] if at + 1 < len(brothers) else None]
    root = get("/api/node", id="@0").json()
    assert root["siblings"] == {"count": 0, "previous": None, "next": None} and root["codes"]["int"] == "0"


def test_children_are_paged_and_sorted(get, subject):
    tree = subject.tree
    i = int(np.argmax(tree.n_children))
    ids = tree.children(i).tolist()
    page = get("/api/children", id=f"@{i}", start=2, count=3).json()
    assert page["total"] == len(ids) and [c["id"] for c in page["children"]] == ids[2:5]
    sizes = [c["size"] for c in get("/api/children", id=f"@{i}", sort="size", count=500).json()["children"]]
    assert sizes == sorted(sizes, reverse=True)
    names = [c["name"].casefold() for c in get("/api/children", id=f"@{i}", sort="name", count=500).json()["children"]]
    assert names == sorted(names)


def test_search_by_word_label_code_and_typing_error(get, subject):
    tree, code = subject.tree, PadicCode(subject.tree)
    cat = tree.index("wildcat.n.03")
    assert get("/api/search", q="wildc").json()["results"][0]["id"] == cat
    assert get("/api/search", q="wildcat.n.03").json()["results"][0]["by"] == "label"
    for mode in ("digits", "bars", "series"):
        first = get("/api/search", q=code.format(cat, mode)).json()["results"][0]
        assert (first["id"], first["by"]) == (cat, "code")
    lost = get("/api/search", q="wldcat").json()
    assert lost["results"] == [] and lost["did_you_mean"][0] == "wildcat"
    assert get("/api/search", q="").json()["results"] == []


def test_lca_is_the_librarys(get, subject):
    tree, code = subject.tree, PadicCode(subject.tree)
    a, b = tree.index(["wildcat.n.03", "bear.n.01"])
    found = get("/api/lca", a="wildcat.n.03", b=f"@{b}").json()
    assert found["lca"]["id"] == tree.lca(a, b) and found["valuation"] == code.valuation(a, b)
    exact = code.distance(a, b, exact=True)
    assert found["exact"] == f"{exact.numerator}/{exact.denominator}"
    assert found["digits"] == [code.digits(i)[: tree.depth[i]].tolist() for i in (a, b)]
    assert get("/api/lca", a="@3", b="@3").json()["distance"] == "0"


def test_describe_is_the_librarys(get, subject, believer):
    i = subject.tree.index("feline.n.01")
    names = believer.features.get_feature_names_out()
    assert get("/api/describe", id=f"@{i}").json()["text"] == str(describe_ball(believer.model, i, feature_names=names))


def test_layers_of_columns_and_of_an_uploaded_table(url, subject):
    tree = subject.tree
    with httpx.Client(base_url=url) as client:
        cells = "\n".join(
            f"{tree.labels[i]},{i % 3},{i % 2 == 0},{'ab'[i // 2 % 2]}" for i in range(0, tree.n_nodes, 2)
        )
        sent = client.post(
            "/api/table?name=mine",
            content=f"who,number,wrong,kind\n{cells}\nnobody,1,True,a\n",
            headers={"content-type": "text/csv"},
        )
        assert sent.status_code == 201, sent.text
        told = sent.json()
        assert (told["label"], told["rows"] - told["matched"], told["unmatched"]) == ("who", 1, ["nobody"])
        named = {entry["title"]: entry["name"] for entry in told["layers"]}
        own = np.where(np.arange(tree.n_nodes) % 2 == 0, np.arange(tree.n_nodes) % 3, 0).astype(float)
        rows = (np.arange(tree.n_nodes) % 2 == 0).astype(float)
        mean = tree.subtree_sum(own) / np.maximum(tree.subtree_sum(rows), 1)
        i = tree.index("feline.n.01")
        for stat, expected in (
            ("mean", mean[i]),
            ("sum", tree.subtree_sum(own)[i]),
            ("count", tree.subtree_sum(rows)[i]),
        ):
            value = client.get("/api/node", params={"id": f"@{i}", "layer": named["number"], "stat": stat}).json()[
                "layer"
            ]
            assert value == pytest.approx(expected, abs=1e-12)
        weight = client.get("/api/layer.bin", params={"name": named["number"], "as": "weight"}).content
        assert np.frombuffer(weight, "<f4").tolist() == own.tolist()
        colour = np.frombuffer(client.get("/api/layer.bin", params={"name": named["kind"]}).content, np.uint8)
        assert set(colour[0::4].tolist()) == {0} and set(colour[2::4].tolist()) == {1}
        assert len(client.get("/api/layer.bin", params={"name": "offset"}).content) == tree.n_nodes
        again = client.post(
            "/api/table?name=other", content=f"who,number\n{tree.labels[1]},1\n", headers={"content-type": "text/csv"}
        )
        assert "number of other" in [entry["title"] for entry in again.json()["layers"]]
        counted = client.post(
            "/api/table?name=c", content=f"who,rows\n{tree.labels[1]},7\n", headers={"content-type": "text/csv"}
        ).json()["layers"]
        assert len(counted) == len({entry["name"] for entry in counted}) == 2  # how many rows there are, and the column
        values = [
            client.get("/api/node", params={"id": "@1", "layer": entry["name"], "stat": "sum"}).json()["layer"]
            for entry in counted
        ]
        assert sorted(values) == [1, 7]
        wrong = client.post("/api/table", content="a,b\nx,1\n", headers={"content-type": "text/csv"})
        assert wrong.status_code == 422 and "is the label of a node" in wrong.json()["error"]


# ---- the model -------------------------------------------------------------------------------------------------------


def test_predictions_equal_the_librarys_bit_for_bit(ask, believer):
    texts = [QUESTION, "", "xyzzy plugh", *believer.sample[0][:40]]
    model, X = believer.model, believer.features.transform(texts)
    found = ask(texts=texts, top=3, risk=0.2).json()["answers"]
    assert [a["label"] for a in found] == model.predict(X).tolist()
    names, p = model.top_k(X, 3)
    assert [[t["label"] for t in a["top"]] for a in found] == names.tolist()
    assert [[t["probability"] for t in a["top"]] for a in found] == p.tolist()
    assert [a["stop"]["label"] for a in found] == model.predict(X, stop="risk", alpha=0.2).tolist()
    balls, chain = model.posterior(X).chain(model.locate(X))
    for a, nodes, values in zip(found, balls, chain, strict=True):
        assert [step["node"] for step in a["path"]] == nodes[nodes >= 0].tolist()
        assert [step["probability"] for step in a["path"]] == values[nodes >= 0].tolist()
    sure = ask(texts=texts, top=0, threshold=0.4).json()["answers"]
    assert [a["stop"]["label"] for a in sure] == model.predict(X, stop="threshold", threshold=0.4).tolist()


def test_beliefs_and_turns(ask, believer):
    X = believer.features.transform([QUESTION])
    answer = ask(texts=[QUESTION], beliefs=True, explain=True).json()["answers"][0]
    p = believer.model.predict_node_proba(X)[0]
    assert answer["beliefs"]["nodes"] == np.flatnonzero(p >= 1e-3).tolist()
    assert answer["beliefs"]["probabilities"] == pytest.approx(p[p >= 1e-3].tolist())
    assert [turn["node"] for turn in answer["turns"]][-1] == answer["node"]
    assert any(word in QUESTION for turn in answer["turns"] for word, _ in turn["spoke"])


def test_many_clients_at_once_get_what_each_would_get_alone(url, believer):
    texts = believer.sample[0][:60]
    expected = believer.model.predict(believer.features.transform(texts)).tolist()
    with (
        httpx.Client(base_url=url, timeout=60, limits=httpx.Limits(max_connections=20)) as client,
        ThreadPoolExecutor(20) as pool,
    ):
        found = list(
            pool.map(lambda t: client.post("/api/predict", json={"texts": [t]}).json()["answers"][0]["label"], texts)
        )
    assert found == expected


def test_texts_are_read_in_pieces_that_end_when_the_client_goes(believer, monkeypatch):
    read, wanted, transform = [], Wanted(), believer.features.transform

    def going(texts):
        read.extend(texts)
        wanted.no_more = True
        return transform(texts)

    whole = believer.read_ask({"texts": [f"cat {i}" for i in range(600)]}, 1000, wanted).X
    assert (whole != transform([f"cat {i}" for i in range(600)])).nnz == 0
    monkeypatch.setattr(believer.features, "transform", going)
    with pytest.raises(ApiError, match="the client has gone"):
        believer.read_ask({"texts": ["cat"] * 600}, 1000, wanted)
    assert 0 < len(read) < 600


def test_a_full_queue_is_refused(subject):
    async def run():
        batcher = Batcher(subject)
        batcher._waiting = [None] * MAX_WAITING
        try:
            batcher.ask(None)
        finally:
            batcher.close()

    with ThreadPoolExecutor(1) as pool, pytest.raises(ApiError, match="too many questions") as caught:
        pool.submit(asyncio.run, run()).result()  # the browser's driver has a loop in this thread
    assert caught.value.status == 503


# ---- errors and strangers --------------------------------------------------------------------------------------------

WRONG = [
    ("GET", "/api/nothing", {}, 404, "path"),
    ("GET", "/api/node", {}, 400, "id"),
    ("GET", "/api/node?id=unicorn", {}, 404, "id"),
    ("GET", "/api/node?id=@99999999", {}, 404, "id"),
    ("GET", "/api/children?id=@0&sort=luck", {}, 400, "sort"),
    ("GET", "/api/children?id=@0&count=501", {}, 400, "count"),
    ("GET", "/api/children?id=@0&start=-1", {}, 400, "start"),
    ("GET", "/api/labels?ids=5-2", {}, 400, "ids"),
    ("GET", "/api/labels?ids=0-99999999999999999999", {}, 400, "ids"),
    ("GET", "/api/labels?ids=a", {}, 400, "ids"),
    ("GET", "/api/search", {}, 400, "q"),
    ("GET", "/api/lca?a=@1", {}, 400, "b"),
    ("GET", "/api/layer?name=nothing", {}, 404, "name"),
    ("GET", "/api/layer?name=offset&stat=median", {}, 400, "stat"),
    ("GET", "/api/export?format=docx", {}, 400, "format"),
    ("GET", "/api/predict", {}, 405, "method"),
    ("DELETE", "/api/node?id=@0", {}, 405, "method"),
    ("POST", "/", {}, 405, "method"),
    ("POST", "/api/predict", {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, "Content-Type"),
    ("POST", "/api/predict", {"content": b"{", "headers": {"content-type": "application/json"}}, 400, "body"),
    ("POST", "/api/predict", {"content": b"[1]", "headers": {"content-type": "application/json"}}, 422, "body"),
    ("POST", "/api/predict", {"content": b"\xff", "headers": {"content-type": "application/json"}}, 400, "body"),
    ("POST", "/api/predict", {"content": b"[" * 200_000, "headers": {"content-type": "application/json"}}, 400, "body"),
    (
        "POST",
        "/api/predict",
        {
            "content": b'{"texts":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
            "headers": {"content-type": "application/json"},
        },
        400,
        "body",
    ),
    ("POST", "/api/predict", {"json": {}}, 422, "body"),
    ("POST", "/api/predict", {"json": {"texts": []}}, 422, "texts"),
    ("POST", "/api/predict", {"json": {"texts": "cat"}}, 422, "texts"),
    ("POST", "/api/predict", {"json": {"texts": [1]}}, 422, "texts"),
    ("POST", "/api/predict", {"json": {"texts": ["a"] * 10_001}}, 413, "texts"),
    ("POST", "/api/predict", {"json": {"texts": ["a " * 600_000]}}, 413, "texts"),
    ("POST", "/api/predict", {"json": {"texts": ["a"], "tpo": 1}}, 422, "tpo"),
    ("POST", "/api/predict", {"json": {"texts": ["a"], "top": 1.5}}, 422, "top"),
    ("POST", "/api/predict", {"json": {"texts": ["a"], "risk": 2}}, 422, "risk"),
    ("POST", "/api/predict", {"json": {"texts": ["a"], "risk": 0}}, 422, "risk"),
    ("POST", "/api/predict", {"json": {"texts": ["a"], "risk": 0.1, "threshold": 0.5}}, 422, "risk"),
    ("POST", "/api/predict", {"json": {"texts": ["a", "b"], "explain": True}}, 422, "texts"),
    ("POST", "/api/predict", {"json": {"X": [[1, 2]]}}, 422, "X"),
    ("POST", "/api/predict", {"json": {"rows": [{"other": 1}]}}, 422, "rows"),
    ("GET", "/api/rows", {}, 400, "id"),
    ("POST", "/api/triage", {"content": b"a,b\n1,2\n", "headers": {"content-type": "text/csv"}}, 422, "body"),
    ("POST", "/api/triage", {"content": b"text,b\n1,2\n", "headers": {"content-type": "text/csv"}}, 422, "target"),
    ("POST", "/api/triage", {"content": b"text,label\n1,2\n", "headers": {"content-type": "text/csv"}}, 422, "target"),
    ("POST", "/api/table", {"content": b"", "headers": {"content-type": "text/csv"}}, 422, "body"),
    ("POST", "/api/table", {"content": b"\xff\xfe", "headers": {"content-type": "text/csv"}}, 422, "body"),
    ("POST", "/api/table", {"content": b"x" * 8_000_001, "headers": {"content-type": "text/csv"}}, 413, "body"),
]


@pytest.mark.parametrize(("method", "path", "options", "status", "where"), WRONG)
def test_errors_are_one_sentence_and_a_place(url, method, path, options, status, where):
    answer = httpx.request(method, url + path, **options)
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert set(body) == {"error", "where"} and body["where"] == where
    assert body["error"].endswith((".", "?")) and len(body["error"]) < 400


def raw(url, request):
    """The status line that a hand-written request gets."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=20) as sock:
        sock.sendall(request)
        answer = b""
        while part := sock.recv(65536):
            answer += part
    return int(answer.split()[1]), answer


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::1", "localhost.evil:80"])
def test_foreign_host_names_are_refused(url, host):
    status, answer = raw(url, f"GET /api/tree HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert status == 400 and b'"where":"Host"' in answer


def test_posts_from_other_origins_are_refused(url):
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = httpx.post(url + "/api/predict", json={"texts": ["a"]}, headers=headers)
        assert answer.status_code == 403 and answer.json()["where"] == "Origin"
    assert httpx.post(url + "/api/predict", json={"texts": ["a"]}, headers={"Origin": url}).status_code == 200
    assert "access-control-allow-origin" not in httpx.get(url + "/api/tree").headers


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../app.py",
        "/assets/%2e%2e/app.py",
        "/assets/..%2fapp.py",
        "//etc/passwd",
        "/assets//main.js",
        "/assets/",
    ],
)
def test_no_path_leaves_the_assets(url, path):
    status, _ = raw(url, f"GET {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nConnection: close\r\n\r\n".encode())
    assert status == 404


def test_every_answer_carries_the_policy(url):
    for path in ("/", "/assets/main.js", "/api/tree", "/nothing"):
        answer = httpx.get(url + path)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_body_without_a_length_is_counted(url):
    place = urlsplit(url)
    head = f"POST /api/table HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: text/csv\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    with socket.create_connection((place.hostname, place.port), timeout=20) as sock:
        sock.sendall(head.encode())
        answer = b""
        try:
            for _ in range(9):
                sock.sendall(chunk)
            answer = sock.recv(65536)
        except (BrokenPipeError, ConnectionResetError):
            answer = answer or sock.recv(65536)
    assert answer.split()[1] == b"413"


def test_openapi_names_every_route(get):
    document = get("/api/openapi.json").json()
    assert {route.path for route in ROUTES} == set(document["paths"])
    for path, parameter in (("/api/labels", "hash"), ("/api/table", "label"), ("/api/triage", "target")):
        *_, found = document["paths"][path].values()
        assert parameter in [one["name"] for one in found["parameters"]]
    assert json.dumps(document).count("10,000") == 1


def test_a_tree_alone_has_no_model_routes():
    small = Subject(Tree.from_parents([-1, 0, 0], labels=["a", "b", "b"]), "small")
    with Running(small, page=False, limits=Limits(1000, 10)) as url:
        assert httpx.post(url + "api/predict", json={"texts": ["x"]}).status_code == 404
        assert httpx.get(url).status_code == 404  # the service has no page
        both = httpx.get(url + "api/node", params={"id": "b"})
        assert both.status_code == 400 and "@1, @2" in both.json()["error"]
        assert httpx.get(url + "api/node", params={"id": "@2"}).json()["ref"] == "@2"
        assert (
            httpx.post(url + "api/table", content="x" * 1001, headers={"content-type": "text/csv"}).status_code == 413
        )


def test_odd_trees_answer_every_question():
    path = Tree.from_parents(np.arange(-1, 2999))
    star = Tree.from_parents([-1] + [0] * 5000, labels=["\x00ctrl", *[f"n{i}\ud800" for i in range(5000)]])
    for tree in (Tree.from_parents([-1]), path, star):
        api = Api(Subject(tree, "odd"))
        last = f"@{tree.n_nodes - 1}"
        for route, query in (
            ("tree", {}),
            ("shape", {}),
            ("labels", {"ids": last[1:]}),
            ("node", {"id": last}),
            ("node", {"id": "@0"}),
            ("children", {"id": "@0", "sort": "name"}),
            ("search", {"q": "n42"}),
            ("lca", {"a": last, "b": "@0"}),
            ("describe", {"id": last}),
        ):
            reply = api.answer("GET", f"/api/{route}", query)
            assert reply.status == 200, (route, reply.body)
    assert len(Api(Subject(path)).subject.shape) == 2 * 3000


def test_an_answer_does_not_wait_for_acknowledgements(url):
    with httpx.Client(base_url=url, timeout=60) as client:
        times = [client.get("/api/node", params={"id": "@1"}).elapsed.total_seconds() for _ in range(20)]
    assert min(times) < 0.035  # a delayed acknowledgement takes 40 ms, every time


def test_a_taken_port_is_one_sentence():
    from vpunn.errors import VpunnError

    sock = listen("127.0.0.1", 0)
    sock.listen()
    with pytest.raises(VpunnError, match="choose another with --port"):
        listen("127.0.0.1", sock.getsockname()[1])
    sock.close()


def test_whoever_is_told_the_address_is_let_in():
    """The browser is opened before the server runs; it must wait, not be refused."""
    sock = listen("127.0.0.1", 0)
    try:
        socket.create_connection(sock.getsockname()[:2], timeout=5).close()
    finally:
        sock.close()


def test_hostile_requests_are_no_failure_of_the_server(url):
    with httpx.Client(base_url=url) as client:
        assert client.get("/api/node", params={"id": "9" * 5000}).status_code == 404
        table = {"content": b"label,x\na,1\n", "headers": {"Content-Type": "text/csv", "Origin": "http://["}}
        assert client.post("/api/table", **table).status_code == 403
        brewed = client.request("BREW", "/api/tree")
        assert brewed.status_code == 405 and brewed.json()["where"] == "method"


def test_whole_numbers_as_labels_are_compared_exactly():
    large = 9 * 10**18
    subject = Subject(Tree.from_parents([-1, 0, 0], labels=np.array([large, large + 1, -1])), "ids")
    assert [subject.resolve(subject.ref(i), "id") for i in range(3)] == [0, 1, 2]
    asked = np.array([str(large + 1), "no number", "-1", "1.5", "9" * 19, str(large)], object)
    assert subject.match_texts(asked).tolist() == [1, -1, 2, -1, -1, 0]


def test_a_node_shows_the_commonest_of_its_own_rows():
    tree = Tree.from_parents([-1, 0, 0], labels=["r", "a", "b"])
    layers = Api(Subject(tree, "t")).layers
    layers.add_table(b"label,kind\na,x\na,y\na,y\nb,x\nb,x\n")
    layer = layers.layer("t1.kind")
    assert [layer.value(i) for i in range(3)] == ["x", "y", "x"]


def test_conformal_rule_used_is_the_models(believer):
    """The stop of a risk is the smallest ball on the path that exceeds the model's own threshold."""
    X = believer.features.transform(believer.sample[0][:30])
    posterior = believer.model.posterior(X)
    limit = conformal.conformal_threshold(believer.model.miss_scores_, 0.1)
    stops = conformal.cautious_nodes(posterior, limit)
    assert believer.model.tree_.is_ancestor(stops, posterior.best()).all()
