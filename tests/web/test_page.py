"""The page in a real Chromium: what a visitor does, on a small fitted model whose last node is named like an attack."""

import json
import re

import httpx
import numpy as np
import pytest

from vpunn.hipan import HiPaNClassifier
from vpunn.report import triage
from vpunn.text import text_features
from vpunn.web.beliefs import ClassifierAnswers
from vpunn.web.server import Running
from vpunn.web.subject import Subject

QUESTION = "a small wild cat with a spotted coat that hunts at night"


def spoken(page):
    return page.locator("#spoken").text_content()


def settle(page):
    """Wait until nothing moves."""
    page.wait_for_timeout(700)


def look(page, selector, text):
    """Wait until an element shows a text."""
    page.locator(selector).filter(has_text=text).first.wait_for()


def test_search_open_compare_and_go_back(visit, url, subject):
    page = visit().open(url)
    page.keyboard.press("/")
    page.keyboard.type("wildc")
    look(page, "#results", "wildcat")
    page.keyboard.press("Enter")
    look(page, "#node h2", "wildcat")
    assert "focus=wildcat.n.03" in page.url
    page.keyboard.press("c")
    look(page, "#compared", "Marked")
    page.locator("#query").fill("bear.n.01")
    look(page, "#results", "bear.n.01")
    page.keyboard.press("Enter")
    look(page, "#compared", "common ancestor")
    answer = httpx.get(url + "/api/lca", params={"a": "wildcat.n.03", "b": "bear.n.01"}).json()
    assert answer["exact"] in page.locator("#distance").text_content()
    assert page.locator(".digits .same").count() == 2 * answer["valuation"]
    assert "with=wildcat.n.03" in page.url
    page.go_back()
    look(page, "#node h2", "wildcat")
    page.go_forward()
    look(page, "#node h2", "bear")


def test_enter_opens_what_was_typed_before_it_is_listed(visit, url):
    page = visit().open(url)
    page.keyboard.press("/")
    page.keyboard.type("wildc")
    page.keyboard.press("Enter")
    look(page, "#node h2", "wildcat")
    settle(page)
    assert page.locator("#results").is_hidden()  # and no list comes after it


def test_an_old_link_says_what_is_gone_and_shows_the_rest(visit, url):
    """A table uploaded before the server's restart is the usual case: its colour is gone, the node is not."""
    guest = visit()
    guest.expected = ("404",)
    page = guest.open(f"{url}/#focus=feline.n.01&color=t9.mass&size=t9.mass&with=nobody&tab=color")
    page.wait_for_function("document.getElementById('panel-node').textContent.includes('feline')")
    assert "t9.mass" in page.text_content("#said") or "nobody" in page.text_content("#said")
    assert page.is_visible("#panel-color") and page.input_value("#color") == ""


def test_a_deep_link_survives_reload(visit, url):
    page = visit().open(url + "/#layout=radial&root=carnivore.n.01&focus=feline.n.01&with=bear.n.01")
    look(page, "#compared", "common ancestor")
    before = page.evaluate("JSON.stringify([explorer.view.window, explorer.view.kind, explorer.view.focus])")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    look(page, "#compared", "common ancestor")
    settle(page)
    assert page.evaluate("JSON.stringify([explorer.view.window, explorer.view.kind, explorer.view.focus])") == before
    assert json.loads(before)[1] == "radial"


def test_zooming_is_in_the_url_and_comes_back(visit, url):
    page = visit().open(url)
    page.mouse.move(500, 500)
    for _ in range(8):
        page.mouse.wheel(0, -150)
        page.wait_for_timeout(20)
    page.wait_for_url(re.compile("zoom="))
    settle(page)
    page.wait_for_timeout(400)
    a, b = page.evaluate("[explorer.view.window.a, explorer.view.window.b]")
    assert 0 <= a < b and b - a < 0.2 * page.evaluate("explorer.shape.total")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    settle(page)
    again = page.evaluate("[explorer.view.window.a, explorer.view.window.b]")
    assert np.allclose(again, [a, b], rtol=1e-9)


def test_a_middle_click_opens_the_same_view_in_a_new_tab(visit, url):
    guest = visit()
    page = guest.open(url + "/#focus=feline.n.01")
    look(page, "#children", "cat")
    with guest.context.expect_page() as opened:
        page.locator("#children a").first.click(button="middle")
    other = opened.value
    other.wait_for_selector("body[data-ready]")
    name = page.locator("#children a").first.text_content()
    look(other, "#node h2", name)
    with guest.context.expect_page() as opened:
        page.mouse.click(400, 500, button="middle")
    opened.value.wait_for_selector("body[data-ready]")
    assert "focus=" in opened.value.url


def test_the_keyboard_walks_the_tree(visit, url, subject):
    tree = subject.tree
    page = visit().open(url)
    page.locator("#view").focus()
    here = 0
    page.keyboard.press("ArrowRight")
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "ArrowDown", "ArrowUp", "ArrowLeft"):
        look(page, "#node h2", subject.name(here + 1 if here == 0 else here))
        here = 1 if here == 0 else here
        brothers = tree.children(int(tree.parent[here])).tolist()
        at = brothers.index(here)
        following = {
            "ArrowRight": here + 1 if tree.size[here] > 1 else here,
            "ArrowLeft": int(tree.parent[here]),
            "ArrowDown": brothers[min(at + 1, len(brothers) - 1)],
            "ArrowUp": brothers[max(at - 1, 0)],
        }[key]
        page.keyboard.press(key)
        here = following
    look(page, "#node h2", subject.name(here))
    assert page.evaluate("explorer.view.focus") == here
    assert subject.name(here) in spoken(page) and f"depth {tree.depth[here]}" in spoken(page)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("root="))
    page.keyboard.press("Backspace")
    settle(page)
    assert page.evaluate("explorer.root") == tree.parent[here]
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()


def test_asking_lights_up_the_tree_and_the_slider_moves_the_stop(visit, url, believer, screenshots):
    page = visit().open(url + "/#tab=ask")
    page.locator("#text").fill(QUESTION)
    page.keyboard.press("Enter")
    page.locator("#stopped").wait_for()
    X = believer.features.transform([QUESTION])
    model = believer.model
    called = lambda label: believer.tree.names[int(believer.tree.index([label])[0])]  # noqa: E731
    best = called(model.predict(X)[0])
    assert best in page.locator(".ranked").first.text_content() and best in page.locator("#fork").text_content()
    assert page.locator("#reasons li").count() >= 3
    shown = page.evaluate("[...explorer.view.beliefs.map]")
    p = model.predict_node_proba(X)[0]
    assert {i: round(v, 9) for i, v in shown} == {i: round(float(min(p[i], 1)), 9) for i in np.flatnonzero(p >= 1e-3)}
    stops = {}
    for place, risk in ((0, 0.01), (3, 0.1), (9, 0.5)):
        page.locator("#risk").fill(str(place))
        page.wait_for_url(re.compile(f"risk={risk}"))
        expected = str(model.predict(X, stop="risk", alpha=risk)[0])
        look(page, "#stopped", called(expected))
        stops[risk] = expected
    assert page.evaluate("explorer.view.stop") == believer.tree.index(stops[0.5])
    page.screenshot(path=screenshots / "beliefs-1400-light.png")
    page.reload()
    look(page, "#stopped", called(stops[0.5]))
    page.locator("#rule").select_option("threshold")
    level = page.evaluate("explorer.ask.level()")
    look(page, "#stopped", called(model.predict(X, stop="threshold", threshold=level)[0]))
    page.locator("#forget").click()
    page.locator("#answer:empty").wait_for(state="attached")
    assert page.evaluate("explorer.view.beliefs") is None


def test_an_answer_keeps_its_siblings_in_view(visit):
    """On a small tree of chains the page zoomed into one solid chain, with no alternative beside it."""
    names = [(c, f"{c}{i}", f"{c}{i}9") for c in "EIJNS" for i in range(2)]
    texts = [f"word{k} of {path[-1]} case {i}" for i in range(8) for k, path in enumerate(names)]
    features = text_features(characters=None, min_rows=1)
    labels = np.array([path for _ in range(8) for path in names], object)
    model = HiPaNClassifier(random_state=0).fit(features.fit_transform(texts), labels)
    with Running(Subject(model.tree_, "codes", ClassifierAnswers(model, features))) as url:
        for layout in ("icicle", "radial"):
            page = visit().open(f"{url}#tab=ask&text=word3&layout={layout}")
            page.locator("#stopped").wait_for()
            settle(page)
            assert page.locator(".ranked .p").first.text_content().split()[0].isdigit()
            seen = page.evaluate(
                """() => [...Array(explorer.shape.n).keys()].filter((i) => explorer.view.layout.shows(i)).length"""
            )
            assert seen >= 20, layout
        boxes = page.evaluate("""() => ["view", "map", "legend"].map((id) => {
          const b = document.getElementById(id).getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; })""")
        (_, _, right, bottom), small, legend = boxes
        # neither map nor legend covers labels; a small tree has no map
        assert (right <= small[0] or not any(small)) and bottom <= legend[1] + 0.5


def test_a_large_tree_is_still_opened_at_the_answer(visit, url):
    page = visit().open(f"{url}#tab=ask&text=a+small+wild+cat+with+a+spotted+coat")
    page.locator("#stopped").wait_for()
    settle(page)
    share = page.evaluate("(explorer.view.window.b - explorer.view.window.a) / explorer.shape.total")
    assert share < 0.5 and page.evaluate("explorer.view.layout.shows(explorer.view.stop)")


def test_a_test_table_shows_where_the_model_fails(visit, url, believer):
    texts, labels = believer.sample
    quoted = [text.replace('"', "'") for text in texts[:300]]
    # every tenth row is given a wrong truth, so that there is something to find
    truth = [labels[0] if k % 10 == 0 else labels[k] for k in range(300)]
    table = "text,label\n" + "\n".join(f'"{t}",{y}' for t, y in zip(quoted, truth, strict=True))
    page = visit().open(url + "/#tab=ask")
    page.locator("#testfile").set_input_files({"name": "test.csv", "mimeType": "text/csv", "buffer": table.encode()})
    look(page, "#verdict", "of 300 rows are right")
    found = triage(believer.model, believer.features.transform(quoted), truth)
    assert page.locator("#verdict").text_content() == found.verdict
    hardest = found.hardest(1)[0]
    page.locator("#triage table a").first.click()
    look(page, "#rows h3", "rows behind")
    wrong = found.rows_at(hardest["ball"], below=True)
    assert page.locator("#rows li.miss").count() == min(len(wrong), 100)
    assert page.locator("#answered li").count() == 50 and page.locator(".matrix tr").count() >= 2
    page.locator("#answered button", has_text="✎").first.click()
    look(page, "#answered", "by hand")
    page.locator("#rows li a").first.click()
    look(page, "#answer", "What spoke for and against")
    assert page.locator("#text").input_value() == quoted[wrong[0]].strip()


def test_hostile_text_stays_text(visit, url, subject):
    last = subject.tree.n_nodes - 1
    guest = visit()
    guest.expected = ("status of 404",)  # of the label that does not exist
    page = guest.open(f"{url}/#focus=@{last}&with=@1")
    look(page, "#node h2", "<script>")
    look(page, "#node dd", "<img")
    page.locator("#query").fill("evil")
    look(page, "#results b", "<script>")
    page.locator("#query").fill("<script>window.hacked=1</script><b>")
    page.wait_for_timeout(400)
    evil = "<img src=x onerror=window.hacked=1>"
    label = subject.tree.labels[last]
    rows = f"who,{evil},sort\n{label},1,{evil}\n{subject.tree.labels[1]},2,plain\n<script>window.hacked=1</script>,3,plain\n"
    page.locator("[data-tab=color]").click()
    page.locator("#table").set_input_files({"name": f"{evil}.csv", "mimeType": "text/csv", "buffer": rows.encode()})
    look(page, "#uploaded", "2 of 3 rows")
    page.locator("#color").select_option(label="sort")
    look(page, "#legend", "<img")
    page.goto(f"{url}/#focus={evil}")
    page.locator("#said").wait_for()
    page.goto(f"{url}/#tab=ask&text={evil}")
    page.wait_for_timeout(500)
    assert page.locator("img").count() == 0


def test_colour_and_size_by_a_table(visit, url, subject):
    tree = subject.tree
    page = visit().open(url + "/#tab=color")
    rows = "\n".join(f"{label},{i % 7}" for i, label in enumerate(tree.labels))
    page.locator("#table").set_input_files(
        {"name": "mine.csv", "mimeType": "text/csv", "buffer": f"who,score\n{rows}".encode()}
    )
    look(page, "#legend", "score, mean")
    page.locator("#stat").select_option("sum")
    look(page, "#legend", "score, sum")
    page.locator("#size").select_option(label="score")
    page.wait_for_url(re.compile("size="))
    settle(page)
    i = int(tree.index("feline.n.01"))
    own = np.arange(tree.n_nodes) % 7
    found = page.evaluate(f"explorer.shape.to({i}) - explorer.shape.from({i})")
    assert found == pytest.approx(own[i : i + tree.size[i]].sum())


def test_wide_and_thin_nodes_are_all_in_the_picture(visit, url, subject):
    """Every pixel of every column shows a node that covers it, wherever one looks: compared with a plain walk."""
    page = visit().open(url)
    wrong = page.evaluate("""() => {
      const { shape, view: { layout: { columns } } } = explorer, bad = [];
      const look = (a, b, height) => {
        columns.paint(shape, { a, b, first: 0, count: shape.maxDepth + 1, height, minCell: 99, colour: (i) => i + 1, gap: 0 });
        const { pixels } = columns, count = shape.maxDepth + 1;
        for (let i = 0; i < shape.n; i++) {
          const y0 = (shape.from(i) - a) * height / (b - a), y1 = (shape.to(i) - a) * height / (b - a), d = shape.depth[i];
          if (y1 <= 0 || y0 >= height) continue;
          if (y1 - y0 >= 2) {
            const row = Math.min(Math.max(Math.round((y0 + y1) / 2 - 0.5), 0), height - 1);
            if (pixels[row * count + d] !== i + 1) bad.push([i, row, pixels[row * count + d] - 1]);
            continue;
          }
          const rows = [Math.floor(y0), Math.round(y0)].map((y) => Math.min(y, height - 1));
          if (y0 >= 0 && rows.every((row) => !pixels[row * count + d])) bad.push([i, y0, "empty"]);
        }
      };
      for (const height of [7, 40, 123, 1000]) {
        look(0, shape.total, height);
        look(shape.total / 3, shape.total / 2, height);
      }
      return bad.slice(0, 5);
    }""")
    assert wrong == []


def test_the_layouts_agree_on_what_lies_under_the_pointer(visit, url):
    page = visit().open(url + "/#root=carnivore.n.01")
    for layout in ("icicle", "radial", "disk", "list"):
        page.locator("#layout").select_option(layout)
        settle(page)
        hits = page.evaluate("""() => {
          const { view } = explorer, found = new Set();
          for (let x = 5; x < view.width; x += 9) for (let y = 5; y < view.height; y += 9) found.add(view.layout.nodeAt(x, y));
          found.delete(-1);
          return [...found];
        }""")
        assert len(hits) > 20, layout


def test_pinch_and_drag(visit, url):
    page = visit(width=390, height=844).open(url)
    before = page.evaluate("explorer.view.window.b - explorer.view.window.a")
    page.evaluate("""() => {
      const c = document.getElementById("view"), box = c.getBoundingClientRect();
      const send = (type, id, x, y) => c.dispatchEvent(new PointerEvent(type, {
        pointerId: id, clientX: box.left + x, clientY: box.top + y, bubbles: true, pointerType: "touch" }));
      c.setPointerCapture = () => {};
      send("pointerdown", 1, 100, 100); send("pointerdown", 2, 100, 200);
      for (let k = 1; k <= 5; k++) { send("pointermove", 1, 100, 100 - 8 * k); send("pointermove", 2, 100, 200 + 8 * k); }
      send("pointerup", 1, 100, 60); send("pointerup", 2, 100, 240);
    }""")
    assert page.evaluate("explorer.view.window.b - explorer.view.window.a") == pytest.approx(
        before * 100 / 180, rel=0.02
    )


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_and_pictures_are_kept(visit, url, screenshots, width, scheme):
    page = visit(width=width, height=900 if width > 500 else 844, scheme=scheme).open(url + "/#focus=feline.n.01")
    look(page, "#node h2", "feline")
    settle(page)
    page.screenshot(path=screenshots / f"mammals-{width}-{scheme}.png")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    boxes = page.evaluate("""() => [...document.querySelectorAll("#bar > *, #trail > *, #tabs > *")].map((e) => {
      const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom, e.id]; }).filter((b) => b[2] > b[0])""")
    for k, (a0, b0, a1, b1, _) in enumerate(boxes):
        assert a0 >= -1 and a1 <= width + 1
        for c0, d0, c1, d1, _ in boxes[k + 1 :]:
            assert a1 <= c0 + 1 or c1 <= a0 + 1 or b1 <= d0 + 1 or d1 <= b0 + 1


def test_labels_never_overlap(visit, url):
    page = visit().open(url)
    for layout in ("icicle", "disk"):
        page.goto(f"{url}/#layout={layout}")
        settle(page)
        clashes = page.evaluate("""() => {
          const { view } = explorer, c = view.context, boxes = [], real = c.fillText.bind(c);
          c.fillText = (text, x, y) => { boxes.push([x, y - 6, x + c.measureText(text).width, y + 6]); real(text, x, y); };
          view.frame(performance.now());
          delete c.fillText;
          let bad = 0;
          boxes.forEach((p, k) => boxes.slice(k + 1).forEach((q) => {
            if (p[0] < q[2] && q[0] < p[2] && p[1] < q[3] && q[1] < p[3]) bad++;
          }));
          return [boxes.length, bad];
        }""")
        assert clashes[0] > 5 and clashes[1] == 0, (layout, clashes)
