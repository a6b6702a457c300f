"""The explorer in a real Chromium and under load: ``python -m benchmarks.explorer tour`` and ``… load MODEL``.

``tour`` opens WordNet and all of NCBI in headless Chromium with software rendering and measures the first paint, every frame of
a scripted zoom tour, search, node panel and the server's memory, beside plotly's icicle of 1,000 nodes in the same browser.
``load`` sends 50 × 200 mixed requests to ``vpunn serve MODEL`` and compares its predictions with the library's.

A frame is drawn, and read back so that its pixels exist. Wall time on a shared machine says little, so the tour is walked
several times and each frame counts with its fastest run; the processor time of the page's main thread is given beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import write_results

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
#: Walks of the tour, frames of a walk, and repeats of a query.
WALKS, FRAMES, REPEATS = 5, 120, 7

#: Zooms from the whole tree into a deep leaf and out again; at every step the frame is drawn and one pixel read back.
TOUR = """async ([layout, frames]) => {
  const { view, shape } = explorer, times = [];
  view.choose(layout);
  let leaf = 0;
  for (let i = 0; i < shape.n; i += 97) if (shape.depth[i] > shape.depth[leaf] && shape.from(i) > shape.total / 5) leaf = i;
  const path = shape.path(leaf), stops = path.filter((_, k) => k % 3 === 0).concat(path.at(-1));
  const there = stops.map((i) => view.layout.fit(i)), windows = there.concat(there.slice(0, -1).reverse());
  for (let k = 0; k < frames; k++) {
    const t = (k / (frames - 1)) * (windows.length - 1), i = Math.min(Math.floor(t), windows.length - 2), s = t - i;
    view.window = view.layout.between(windows[i], windows[i + 1], s);
    const start = performance.now();
    view.frame(start);
    view.context.getImageData(0, 0, 1, 1);
    times.push(performance.now() - start);
    if (k % 10 === 9) await new Promise((go) => setTimeout(go, 0)); // labels arrive between frames, as they do for people
  }
  return times;
}"""


def browser_path() -> str:
    """The Chromium to use."""
    path = shutil.which(os.environ.get("VPUNN_BROWSER") or "chromium")
    if path is None:
        sys.exit("no Chromium on the path and none in VPUNN_BROWSER; `make browser` installs it")
    return path


class Served:
    """A server process: its address and memory."""

    def __init__(self, command: str, source: str) -> None:
        code = "from vpunn.cli import main; main()"
        words = [sys.executable, "-c", code, command, source, "--port", "0"]
        words += ["--no-browser"] if command == "explore" else []
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        assert self.process.stdout is not None
        self.url = ""
        while not self.url:
            line = self.process.stdout.readline()
            if not line and self.process.poll() is not None:
                sys.exit(f"`vpunn {command} {source}` stopped with code {self.process.returncode}")
            found = re.search(r"http://[^/]+/", line)
            self.url = found[0] if found else ""

    def memory(self, which: str = "VmRSS") -> float:
        """Resident memory in MB, now (VmRSS) or at its highest (VmHWM)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{which}:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]

    def cpu_seconds(self) -> float:
        """Processor time of the server so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)


def tour(sources: list[str]) -> list[dict[str, Any]]:
    """One row a tree and layout, and plotly's."""
    from playwright.sync_api import sync_playwright

    rows: list[dict[str, Any]] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path(), args=FLAGS)
        for source in sources:
            with Served("explore", source) as served:
                rows += _tour_of(browser, served, source)
        rows.append(_plotly(browser))
        browser.close()
    return rows


def _tour_of(browser: Any, served: Served, source: str) -> list[dict[str, Any]]:
    import httpx

    client = httpx.Client(base_url=served.url, timeout=600, transport=httpx.HTTPTransport(retries=20))
    client.get("/api/search", params={"q": "dog"})  # answered when the index is built: the server is running
    client.get("/api/tree")
    paints = []
    for _ in range(3):
        context = browser.new_context(viewport={"width": 1400, "height": 900})
        page = context.new_page()
        page.set_default_timeout(600_000)
        page.goto(served.url)
        page.wait_for_selector("body[data-ready]")
        paints.append(page.evaluate("explorer.painted"))
        if len(paints) < 3:
            context.close()
    metrics = context.new_cdp_session(page)
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})
    words = ["dog", "homo sapiens", "canis lup", "s", "red fox", "wolf", "bacteria"]
    spent_before = served.cpu_seconds()
    searches = [_milliseconds(client, "/api/search", {"q": word}) for word in words]
    search_cpu = 1000 * (served.cpu_seconds() - spent_before) / len(searches) / REPEATS
    ids = random.Random(0).sample(range(page.evaluate("explorer.shape.n")), 20)
    spent_before = served.cpu_seconds()
    panels = [_milliseconds(client, "/api/node", {"id": f"@{i}"}) for i in ids]
    panel_cpu = 1000 * (served.cpu_seconds() - spent_before) / len(panels) / REPEATS
    rows = []
    for layout in ("icicle", "radial", "dendrogram", "disk"):
        runs, spent = [], []
        for _ in range(WALKS):
            before = _thread_seconds(metrics)
            runs.append(page.evaluate(TOUR, [layout, FRAMES]))
            spent.append((_thread_seconds(metrics) - before) / FRAMES * 1000)
        best = np.min(runs[1:], axis=0)  # the first walk builds tables and meets labels for the first time
        rows.append(
            {
                "what": f"{source}, {layout}",
                "nodes": page.evaluate("explorer.shape.n"),
                "first paint s": min(paints) / 1000,
                "load average": os.getloadavg()[0],
                "median frame ms": float(np.median(best)),
                "worst frame ms": float(best.max()),
                "median of all runs ms": float(np.median(runs)),
                "worst of all runs ms": float(np.max(runs)),
                "main thread ms a frame": min(spent),
                "search ms": max(searches),
                "search, server's CPU ms": search_cpu,
                "panel ms": float(np.max(panels)),
                "panel, server's CPU ms": panel_cpu,
                "server MB": served.memory(),
                "server peak MB": served.memory("VmHWM"),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    context.close()
    return rows


def _thread_seconds(metrics: Any) -> float:
    found = {m["name"]: m["value"] for m in metrics.send("Performance.getMetrics")["metrics"]}
    return float(found.get("ThreadTime", found["TaskDuration"]))


def _milliseconds(client: Any, path: str, query: dict[str, str]) -> float:
    """Fastest of several requests: the others waited for other processes."""
    best = np.inf
    for _ in range(REPEATS):
        start = time.perf_counter()
        client.get(path, params=query).raise_for_status()
        best = min(best, time.perf_counter() - start)
    return 1000 * best


def _plotly(browser: Any, nodes: int = 1000) -> dict[str, Any]:
    """Plotly's icicle of the first nodes of WordNet, drawn once and zoomed once."""
    try:
        import plotly
        import plotly.graph_objects as graphs
        from plotly.offline import get_plotlyjs
    except ImportError:
        return {"what": "plotly icicle", "nodes": nodes, "note": "not installed: pip install plotly"}
    from vpunn.datasets import load_wordnet

    tree = load_wordnet().tree
    kept = np.flatnonzero(tree.depth <= 6)[:nodes]
    ids = [str(i) for i in kept]
    parents = ["" if i == 0 else str(tree.parent[i]) for i in kept]
    figure = graphs.Figure(graphs.Icicle(ids=ids, labels=[str(tree.columns["name"][i]) for i in kept], parents=parents))
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.set_default_timeout(600_000)
    page.set_content("<div id=plot style='width:1000px;height:800px'></div>")
    page.add_script_tag(content=get_plotlyjs())
    seconds = page.evaluate(
        """async (figure) => {
      const start = performance.now();
      await Plotly.newPlot("plot", figure.data, figure.layout);
      const drawn = performance.now();
      await Plotly.restyle("plot", { level: [figure.data[0].ids[1]] });
      return [drawn - start, performance.now() - drawn];
    }""",
        json.loads(figure.to_json()),
    )
    page.close()
    name = f"plotly {plotly.__version__} icicle"
    return {"what": name, "nodes": len(kept), "first paint s": seconds[0] / 1000, "median frame ms": seconds[1]}


def load(model: str, clients: int = 50, requests: int = 200) -> list[dict[str, Any]]:
    """Many clients with mixed requests: errors, latencies, memory, and whether predictions are the library's."""
    import httpx

    from vpunn.web.opening import open_model

    subject = open_model(Path(model))
    tree, believer = subject.tree, subject.answers
    rng = random.Random(0)
    some = [
        f"a {rng.choice(['small', 'large', 'red', 'old'])} {subject.name(rng.randrange(tree.n_nodes))}"
        for _ in range(40)
    ]
    X = believer.features.transform(some)
    labels, p = believer.model.top_k(X, 3)
    expected = {t: [list(map(str, a)), b] for t, a, b in zip(some, labels.tolist(), p.tolist(), strict=True)}

    async def visit(client: httpx.AsyncClient, seed: int, times: list[float], wrong: list[str]) -> None:
        own = random.Random(seed)
        for _ in range(requests):
            try:
                await ask(client, own, times, wrong)
            except httpx.HTTPError as error:
                wrong.append(f"no answer: {error!r}")

    async def ask(client: httpx.AsyncClient, own: random.Random, times: list[float], wrong: list[str]) -> None:
        kind, node = own.randrange(6), f"@{own.randrange(tree.n_nodes)}"
        start = time.perf_counter()
        if kind == 0:
            text = own.choice(some)
            answer = await client.post("/api/predict", json={"texts": [text], "top": 3})
            times.append(time.perf_counter() - start)
            top = answer.json().get("answers", [{}])[0].get("top", [])
            if [[t["label"] for t in top], [t["probability"] for t in top]] != expected[text]:
                wrong.append(f"prediction for {text!r}")
            return
        path, query = [
            ("/api/node", {"id": node}),
            ("/api/search", {"q": own.choice(["dog", "red", "tree of", "xyzq"])}),
            ("/api/lca", {"a": node, "b": f"@{own.randrange(tree.n_nodes)}"}),
            ("/api/children", {"id": node}),
            ("/api/labels", {"ids": node[1:]}),
        ][kind - 1]
        answer = await client.get(path, params=query)
        times.append(time.perf_counter() - start)
        if answer.status_code != 200:
            wrong.append(f"{path} {query}: {answer.status_code}")

    async def everybody(url: str) -> tuple[list[float], list[str], float]:
        times: list[float] = []
        wrong: list[str] = []
        async with httpx.AsyncClient(base_url=url, timeout=600, limits=httpx.Limits(max_connections=clients)) as client:
            start = time.perf_counter()
            await asyncio.gather(*(visit(client, seed, times, wrong) for seed in range(clients)))
            return times, wrong, time.perf_counter() - start

    with Served("serve", model) as served:
        httpx.Client(base_url=served.url, timeout=600, transport=httpx.HTTPTransport(retries=20)).get(
            "/api/search?q=dog"
        )
        asyncio.run(everybody(served.url))  # compiled and warm
        before = served.memory()
        times, wrong, seconds = asyncio.run(everybody(served.url))
        alone = httpx.Client(base_url=served.url, timeout=600)
        one = np.inf
        for text in some[:20]:
            start = time.perf_counter()
            alone.post(
                "/api/predict", json={"texts": [text], "explain": True, "beliefs": True, "risk": 0.1}
            ).raise_for_status()
            one = min(one, time.perf_counter() - start)
        row = {
            "what": f"{clients} clients × {requests} requests",
            "errors": len(wrong),
            "requests a second": len(times) / seconds,
            "p50 ms": 1000 * float(np.quantile(times, 0.5)),
            "p99 ms": 1000 * float(np.quantile(times, 0.99)),
            "warm prediction with reasons ms": 1000 * one,
            "MB before": before,
            "MB after": served.memory(),
        }
    print(json.dumps(row), *wrong[:5])
    return [row]


if __name__ == "__main__":
    if sys.argv[1:2] == ["tour"]:
        print(write_results("explorer-tour", tour(sys.argv[2:] or ["wordnet", "ncbi"])))
    elif sys.argv[1:2] == ["load"] and len(sys.argv) == 3:
        print(write_results("explorer-load", load(sys.argv[2])))
    else:
        sys.exit("python -m benchmarks.explorer tour [TREE …] | load MODEL")
