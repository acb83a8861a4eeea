"""Agents whose tools can't be shown as one list: the one who asks is told which, and what to do."""

from tests.app.agents.conftest import Opens

PARENT = """
name: parent
version: 1
instructions: Ask the child.
tools: [{search: {collections: [one, two]}}, {agent: child}]
"""
CHILD = """
name: child
version: 1
description: Looks things up.
instructions: Look it up.
tools: [{search: {collections: [two, one]}}]
"""


def test_a_run_that_cannot_begin_says_why(harbour: Opens) -> None:
    with harbour((), PARENT, CHILD) as opened:
        asked = {"model": "agent:parent", "input": "What is it?"}
        answer = opened.http.post("/v1/responses", json=asked)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (500, "agent_tools_clash")
        assert "agent parent: its tool 'search' is another one" in error["message"]
        assert "give both the same options" in error["message"]
