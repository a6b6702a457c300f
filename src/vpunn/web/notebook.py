"""The explorer inside a notebook: the page in a frame, its questions answered by this process through the widget's channel.

No port is opened, so it also works where the notebook runs on another machine.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from vpunn.errors import VpunnError
from vpunn.web.api import Api
from vpunn.web.export import document
from vpunn.web.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from vpunn._types import Json


#: The frame may run its own scripts and save files, and has an origin of its own: nothing of the notebook is in reach.
FRAME = """
export default {
  render({ model, el }) {
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "allow-scripts allow-forms allow-downloads allow-popups");
    frame.setAttribute("title", "vpunn explorer");
    frame.srcdoc = model.get("page");
    Object.assign(frame.style, { width: "100%", height: `${model.get("height")}px`, border: "0" });
    const ask = (event) => {
      if (event.source === frame.contentWindow && event.data && event.data.vpunn) model.send(event.data);
    };
    const answer = (content, buffers) => {
      if (!content.vpunn) return;
      const view = buffers[0], data = new Uint8Array(view.buffer ?? view, view.byteOffset ?? 0, view.byteLength).slice();
      frame.contentWindow.postMessage({ ...content, data }, "*");
    };
    addEventListener("message", ask);
    model.on("msg:custom", answer);
    el.append(frame);
    return () => { removeEventListener("message", ask); model.off("msg:custom", answer); };
  },
};
"""


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this process."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    return found is not None and hasattr(found, "kernel")


def make_widget(subject: Subject, height: int = 640) -> Any:
    """A widget that shows the explorer; needs ``anywidget``."""
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise VpunnError(f"the explorer in a notebook needs {error.name}: pip install 'vpunn[web]'.") from error
    api = Api(subject)

    class Explorer(anywidget.AnyWidget):
        """The explorer's frame."""

        _esm = FRAME
        page = traitlets.Unicode().tag(sync=True)
        height = traitlets.Int().tag(sync=True)

    widget = Explorer(page=document(api.summary(), None, "frame"), height=height)
    widget.on_msg(lambda _, content, __: answer(api, content, widget.send))
    return widget


def answer(api: Api, content: Json, send: Callable[..., object]) -> None:
    """Answer one message of the frame; what is no question is ignored."""
    if not isinstance(content, dict) or not isinstance(content.get("vpunn"), int):
        return
    query = content.get("query")
    given = {str(k): str(v) for k, v in query.items()} if isinstance(query, dict) else {}
    body = content.get("body")
    method = "GET" if body is None else "POST"
    data = str(body).encode("utf-8", "replace") if body is not None else b""
    reply = api.answer(method, str(content.get("path")), given, data, str(content.get("kind") or ""))
    send({"vpunn": content["vpunn"], "status": reply.status}, buffers=[reply.body])
