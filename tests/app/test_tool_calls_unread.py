"""An engine that can't tell its model's tool calls from text: told once requests bring tools, and
not asked for a call that must come."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.stack.check import Status
from app.stack.gateway_checks import readiness
from bench.engine_sim import CallConfig, SimulatorConfig, SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}


@pytest.fixture(params=[True, False], ids=["reads calls", "reads none"])
def reads_calls(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def http(tmp_path: Path, reads_calls: bool) -> Iterator[httpx.Client]:
    model = write_tokenizer(tmp_path / "tiny", chat_template=CHATML_TOOLS)
    config = SimulatorConfig(
        model_path=model, reads_calls=reads_calls, call=CallConfig(text="\nnow {} ", name="now")
    )
    with (
        SimulatorThread(config) as engine,
        running_gateway(gateway_settings(tmp_path, engine.url, tokenizer=model)) as url,
    ):
        wait_until_ready(url)
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            yield client


def ask(http: httpx.Client, **fields: object) -> dict[str, Any]:
    messages = [{"role": "user", "content": "What time is it?"}]
    body = {"model": "default", "messages": messages, "max_tokens": 40, **fields}
    answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200
    message: dict[str, Any] = answer.json()["choices"][0]["message"]
    return message


CHOSEN = {"type": "function", "function": {"name": "now"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NOW]}}


@pytest.mark.parametrize("choice", ["required", CHOSEN, ALLOWED], ids=["any", "named", "allowed"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_call_that_must_come_is_refused_where_it_would_come_as_text(
    http: httpx.Client, reads_calls: bool, choice: object, stream: bool
) -> None:
    messages = [{"role": "user", "content": "What time is it?"}]
    body = {"model": "default", "messages": messages, "max_tokens": 40, "tools": [NOW]}
    answer = http.post(
        "/v1/chat/completions", json=body | {"tool_choice": choice, "stream": stream}
    )
    assert answer.status_code == (200 if reads_calls else 400)
    if not reads_calls:
        error = answer.json()["error"]
        assert (error["type"], error["param"]) == ("invalid_request_error", "tool_choice")
        assert "--tool-call-parser" in error["message"]


def test_a_response_is_refused_alike(http: httpx.Client, reads_calls: bool) -> None:
    body = {"model": "default", "input": "What time is it?", "max_output_tokens": 40}
    body |= {"tools": [{"type": "function", **NOW["function"]}]}  # type: ignore[dict-item]
    answer = http.post("/v1/responses", json=body | {"tool_choice": "required"})
    assert answer.status_code == (200 if reads_calls else 400)
    if not reads_calls:
        assert answer.json()["error"]["param"] == "tool_choice"


def reasons(http: httpx.Client) -> list[str]:
    return [reason for reason in http.get("/readyz").json()["reasons"] if "FW751" in reason]


def test_the_gateway_says_so_once_a_request_might_be_answered_with_calls(
    http: httpx.Client, reads_calls: bool
) -> None:
    ask(http)
    ask(http, tools=[NOW], tool_choice="none")
    assert reasons(http) == []
    assert bool(ask(http, tools=[NOW]).get("tool_calls")) is reads_calls
    told = reasons(http)
    assert len(told) == (0 if reads_calls else 1)
    if not reads_calls:
        assert "--tool-call-parser auto" in told[0]
        (check,) = (c for c in readiness(http.get("/readyz").json(), url="") if c.found == told[0])
        assert (check.name, check.status) == ("engine config", Status.PROBLEM)
        assert check.advice == "`foreword lint --explain FW751`"
