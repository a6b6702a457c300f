"""Saved files: a page that works from disk without a network, pictures, tables; and the page inside a notebook."""

import base64
import io
import json
import re
from xml.etree import ElementTree

import httpx
import numpy as np
import pytest

from vpunn.io import read_tree
from vpunn.tree import Tree
from vpunn.web import export as exporting
from vpunn.web.api import Api
from vpunn.web.export import ASSETS, MODULES, bundle, cut
from vpunn.web.notebook import FRAME, answer, make_widget
from vpunn.web.search import SearchIndex
from vpunn.web.subject import Subject


def look(page, selector, text):
    page.locator(selector).filter(has_text=text).first.wait_for()


def saved(page, form, tmp_path):
    """Save the view in a form and return the file."""
    with page.expect_download() as begun:
        page.locator("#save").select_option(form)
    path = tmp_path / begun.value.suggested_filename
    begun.value.save_as(path)
    return path


def test_the_saved_page_works_from_disk(visit, url, subject, tmp_path, screenshots):
    page = visit().open(url + "/#root=carnivore.n.01&color=offset")
    path = saved(page, "html", tmp_path)
    guest = visit()
    guest.context.set_offline(True)
    guest.context.on(
        "request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else guest.problems.append(r.url)
    )
    page = guest.open(path.as_uri())
    part = subject.tree.subtree(subject.tree.index("carnivore.n.01"))
    assert page.evaluate("explorer.shape.n") == part.n_nodes
    page.keyboard.press("/")
    page.keyboard.type("wildc")
    look(page, "#results", "wildcat")
    page.keyboard.press("Enter")
    look(page, "#node h2", "wildcat")
    code = Api(Subject(part)).answer("GET", "/api/node", {"id": "wildcat.n.03"})
    expected = json.loads(code.body)
    for mode, text in expected["codes"].items():
        assert text in page.locator("#node").text_content(), mode
    page.locator("#query").fill("widlcat")  # did you mean, with the server's words
    look(page, "#results .none button", "wildcat")
    assert page.locator("#results .none button").all_text_contents() == SearchIndex(part).suggest("widlcat")
    page.locator("#results .none button").first.click()
    look(page, "#results [role=option]", "wildcat")
    for mode in ("int", "digits", "bars", "path"):
        page.locator("#query").fill(expected["codes"][mode])
        look(page, "#results [role=option]", "wildcat.n.03")
        assert page.locator("#results [role=option] code").first.text_content() == "wildcat.n.03", mode
    page.locator("#query").fill("")
    page.locator("#view").focus()
    before = page.evaluate("explorer.view.window.b - explorer.view.window.a")
    page.mouse.move(400, 400)
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(300)
    assert page.evaluate("explorer.view.window.b - explorer.view.window.a") < before
    page.goto(path.as_uri() + "#focus=bear.n.01&with=feline.n.01&color=offset")
    look(page, "#compared", "common ancestor")
    look(page, "#legend", "offset, mean")
    page.screenshot(path=screenshots / "saved-page.png")
    page.go_back()
    look(page, "#node h2", "wildcat")


def test_pictures_and_tables(visit, url, subject, tmp_path):
    page = visit().open(url + "/#root=carnivore.n.01")
    look(page, "#children", "feline")
    page.wait_for_timeout(400)
    for layout in ("icicle", "radial", "disk"):
        page.locator("#layout").select_option(layout)
        page.wait_for_timeout(600)
        drawn = ElementTree.fromstring(saved(page, "svg", tmp_path).read_text())
        texts = [t.text for t in drawn.iter("{http://www.w3.org/2000/svg}text")]
        assert "feline" in texts, layout
    assert saved(page, "png", tmp_path).read_bytes().startswith(b"\x89PNG")
    part = subject.tree.subtree(subject.tree.index("carnivore.n.01"))
    assert read_tree(saved(page, "newick", tmp_path)) == part
    assert saved(page, "csv", tmp_path).read_text().count("\n") >= part.n_nodes
    assert json.loads(saved(page, "json", tmp_path).read_text())["name"] == "carnivore.n.01"


def test_a_large_tree_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(exporting, "MAX_PAGE", 50)
    tree = Tree.from_parents([-1] + [i // 7 for i in range(399)])
    text = Api(Subject(tree, "big")).answer("GET", "/api/export", {"format": "html"}).body.decode()
    note = json.loads(re.search(r'id="setup">(.*?)</script>', text)[1])["summary"]["note"]
    kept = int((tree.depth <= 1).sum())
    assert note == f"Cut 1 levels below 0: {400 - kept:,} deeper nodes are left out."
    short = cut(tree, 1)
    assert short.n_nodes == kept and short.columns["below"].sum() == 400 - kept
    table = Api(Subject(tree)).answer("GET", "/api/export", {"format": "csv", "depth": "1"}).body
    assert len(np.loadtxt(io.BytesIO(table), delimiter=",", dtype=str)) == kept + 1


def test_hostile_labels_do_not_leave_the_data(subject):
    tree = Tree.from_parents([-1, 0], labels=["</script><script>x()</script>", "<!--policy-->"])
    text = Api(Subject(tree, "</script><b>")).answer("GET", "/api/export", {}).body.decode()
    assert "<script>x()" not in text and "<b>" not in text and text.count("<script") == 3 == text.count("</script>")
    assert "unsafe" not in text and "http-equiv" in text


def test_the_bundle_is_all_modules_and_small():
    assert {f"{name}.js" for name in MODULES} == {path.name for path in ASSETS.glob("*.js")}
    names = re.findall(r"^(?:async )?(?:function|class|const|let) ([A-Za-z_$][\w$]*)", bundle(), re.M)
    assert len(names) == len(set(names)) > 50
    import gzip

    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in ASSETS.glob("*.js")) <= 60_000
    for path in ASSETS.iterdir():
        assert not re.search(r"(https?:)?//(?!www\.w3\.org/2000/svg)[a-z0-9.-]+\.[a-z]{2,}", path.read_text()), (
            path.name
        )


def test_the_notebook_frame_asks_through_its_channel(visit, subject, believer, url):
    """The widget's own module and page in a real frame; its messages are answered by the widget's own handler."""
    widget = make_widget(subject, 700)
    page = visit().page
    sent = []

    def ask(content):
        found = []
        answer(Api(subject), json.loads(content), lambda head, buffers: found.append((head, buffers)))
        sent.append(json.loads(content)["path"])
        (head, buffers) = found[0]
        return [head, base64.b64encode(buffers[0]).decode()]

    page.expose_function("ask", ask)
    page.route("**/notebook", lambda route: route.fulfill(content_type="text/html", body="<body><div id=el></div>"))
    page.goto(url + "/notebook")
    page.evaluate(
        """async ([esm, html]) => {
      const listeners = [];
      const model = {
        get: (name) => ({ page: html, height: 700 })[name],
        on: (_, f) => listeners.push(f), off: () => {},
        send: async (content) => {
          const [head, data] = await window.ask(JSON.stringify(content));
          const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
          listeners.forEach((f) => f(head, [new DataView(bytes.buffer)]));
        },
      };
      const module = await import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" })));
      module.default.render({ model, el: document.getElementById("el") });
    }""",
        [FRAME, widget.page],
    )
    frame = page.frame_locator("iframe")
    frame.locator("body[data-ready]").wait_for()
    frame.locator("#query").fill("wildc")
    frame.locator("#results a").filter(has_text="wildcat").first.click()
    frame.locator("#node h2").filter(has_text="wildcat").wait_for()
    frame.locator("#tab-ask").click()
    frame.locator("#text").fill("a striped cat")
    frame.locator("#ask .main").click()
    frame.locator("#stopped").wait_for()
    expected = believer.model.predict(believer.features.transform(["a striped cat"]), stop="risk", alpha=0.1)[0]
    assert frame.locator("#stopped").text_content() == subject.name(int(subject.tree.index([expected])[0]))
    assert {"/api/shape", "/api/search", "/api/predict", "/api/labels"} <= set(sent)


@pytest.mark.parametrize(
    "content", [None, {}, {"vpunn": "x"}, {"vpunn": 1, "path": "/etc/passwd"}, {"vpunn": 1, "query": 7}]
)
def test_odd_messages_in_a_notebook_do_no_harm(subject, content):
    sent = []
    answer(Api(subject), content, lambda head, buffers: sent.append(head["status"]))
    assert sent in ([], [404])


def test_export_over_http_names_the_file(url):
    got = httpx.get(url + "/api/export", params={"id": "feline.n.01", "format": "newick"})
    assert got.headers["content-disposition"] == 'attachment; filename="feline.nwk"'


def test_exported_tables_run_nothing_in_a_spreadsheet():
    labels = ["=cmd|' /C calc'!A0", "-2", "+x", "owl", "-"]
    tree = Tree.from_parents([-1, 0, 0, 0, 0], labels=labels, columns={"mass": np.array([-1.5, 2, 3, 4, 5])})
    api = Api(Subject(tree))
    lines = api.answer("GET", "/api/export", {"format": "csv"}).body.decode().splitlines()
    assert lines[1].split(",")[1] == "'=cmd|' /C calc'!A0" and lines[1].endswith(",-1.5")
    assert [line.split(",")[1] for line in lines[2:]] == ["-2", "'+x", "owl", "-"]
    raw = api.answer("GET", "/api/export", {"format": "csv", "raw": "yes"}).body.decode()
    assert raw == tree.to_frame().to_csv(index=False)
