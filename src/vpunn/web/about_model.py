"""Answers of the model: to questions, and about a table with the right answers. `routes` says which is whose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vpunn.web.batch import AskedTable, ScoredTable
from vpunn.web.layers import read_limits
from vpunn.web.replies import ApiError, Reply, json_reply

if TYPE_CHECKING:
    from vpunn.web.api import Api
    from vpunn.web.asked import Asked
    from vpunn.web.beliefs import Ask
    from vpunn.web.numbers import NumberAsk


def predict(api: Api, asked: Asked) -> Reply:
    """Answers of the model for texts or rows."""
    answers: Any = api.answers
    return json_reply(answers.answer([read_question(api, asked)])[0])


def read_question(api: Api, asked: Asked) -> Ask | NumberAsk:
    """A checked question to the model."""
    return api.answers.read_ask(asked.json(), api.limits.rows, asked.wanted)


def triage(api: Api, asked: Asked) -> Reply:
    """Where the model fails on a table with the right answers; the table is kept for `rows` until the next one."""
    answers: Any = api.answers
    read_limits(asked.body, api.limits)
    api.scored = ScoredTable.of_table(answers, asked.body, asked.get("target"), api.limits.rows, asked.wanted)
    return json_reply(api.scored.summary())


def scored(api: Api, asked: Asked) -> Reply:
    """The same of the table last sent, or of the rows that the explorer was opened with."""
    return json_reply(last(api).summary())


def last(api: Api) -> ScoredTable:
    """The table last sent to `triage`."""
    if api.scored is None:
        raise ApiError(404, "no test table has been sent yet; POST one to /api/triage.", "path")
    return api.scored


def examples(api: Api, asked: Asked) -> Reply:
    """A few training rows to ask first."""
    return json_reply(api.answers.examples())


def table(api: Api, asked: Asked) -> Reply:
    """The likeliest place of every row of a table."""
    read_limits(asked.body, api.limits)
    return json_reply(AskedTable(api.answers, asked.body, api.limits.rows, asked.wanted).answered())  # type: ignore[arg-type]


def confusion(api: Api, asked: Asked) -> Reply:
    """Which branches of a depth are taken for which in the table last sent to `triage`."""
    return json_reply(last(api).confusion(asked.number("depth", 1, 1, api.subject.tree.max_depth or 1)))


def rows(api: Api, asked: Asked) -> Reply:
    """Rows of the table last sent to `triage` behind a ball."""
    node = api.node(asked, "id")
    return json_reply(last(api).rows(node))
