"""What an engine counts, tells of itself, refuses and lets be aborted."""

import json
import threading

import httpx
import pytest

from tests.contracts.client import Client, Contract, wait_until

LABELS = {"x-custom-labels": json.dumps({"template": "docqa@1", "tenant": "t1", "other": "z"})}


class AccountContract(Contract):
    """What the engine counts and tells of its load."""

    @pytest.mark.parametrize("streaming", [False, True])
    def test_labelled_requests_are_counted(self, client: Client, streaming: bool) -> None:
        prompt = client.ids(70)
        client.chat(prompt)
        known = {"template": "docqa@1", "tenant": "t1"}
        stream = {"is_streaming": "true" if streaming else "false"}

        def counts() -> list[float]:
            return [
                client.metric("sglang:prompt_tokens_total", **known, **stream),
                client.metric("sglang:generation_tokens_total", **known, **stream),
                client.metric("sglang:num_requests_total", **known, **stream),
                client.metric("sglang:cached_tokens_total", **known, cache_source="device"),
            ]

        before = counts()
        ask = client.stream if streaming else client.chat
        ask(prompt, max_tokens=3, headers=LABELS)
        expected = [70, 3, 1, client.page_floor(69)]
        wait_until(
            lambda: [a - b for a, b in zip(counts(), before, strict=True)] == expected,
            timeout_s=8,
        )

    def test_a_malformed_label_header_is_ignored(self, client: Client) -> None:
        client.chat("x", headers={"x-custom-labels": "{nope"})

    def test_loads_tell_what_routing_needs(self, client: Client) -> None:
        (load,) = client.get("/v1/loads")["loads"]
        assert load["num_waiting_reqs"] == 0
        assert load["num_waiting_uncached_tokens"] == 0
        assert load["max_total_num_tokens"] > 0
        assert 0 <= load["token_usage"] <= 1
        assert load["total_prefill_uncached_tokens"] >= 0
        assert load["total_prefill_busy_us"] >= 0
        assert load["queues"]["waiting"] == 0
        (core,) = client.get("/v1/loads?include=core")["loads"]
        assert "queues" not in core
        assert "memory" not in core

    def test_state_routes(self, client: Client) -> None:
        assert client.http.get("/ready").status_code == 200
        assert client.http.get("/health_generate").status_code == 200
        assert client.get("/model_info")["served_model_name"] == client.model
        info = client.get("/server_info")
        assert info["page_size"] == client.page_size
        assert info["context_length"] in (None, client.window)

    def test_only_the_served_model_is_listed(self, client: Client) -> None:
        (card,) = client.get("/v1/models")["data"]
        assert card["id"] == client.model
        assert client.get(f"/v1/models/{client.model}")["id"] == client.model
        unknown = client.http.get("/v1/models/nope")
        assert unknown.status_code == 404
        assert unknown.json()["error"]["code"] == "model_not_found"


class ErrorContract(Contract):
    """What is refused, and how it says so."""

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_prompt_longer_than_the_window(self, client: Client, stream: bool) -> None:
        body = client.body([client.ids(1)[0]] * (client.window + 1), stream=stream)
        problem = client.refusal("/v1/chat/completions", body)
        assert problem == {
            "object": "error",
            "message": f"The input ({client.window + 1} tokens) is longer than the model's context "
            f"length ({client.window} tokens).",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        }

    def test_a_prompt_that_leaves_too_little_room(self, client: Client) -> None:
        body = client.body([client.ids(1)[0]] * 100, max_tokens=client.window - 50)
        problem = client.refusal("/v1/chat/completions", body)
        assert problem["message"].startswith("Requested token count exceeds")

    def test_a_prompt_that_just_fits_the_window_is_too_long_for_the_engine(
        self, client: Client
    ) -> None:
        body = client.body([client.ids(1)[0]] * (client.window - 2), max_tokens=1)
        problem = client.refusal("/v1/chat/completions", body)
        assert "exceeds the maximum allowed length" in problem["message"]

    @pytest.mark.parametrize(
        "fields",
        [
            {"messages": []},
            {"input_ids": []},
            {"max_tokens": -1},
            {"temperature": -1},
            {"top_p": 2},
            {"top_k": 0, "temperature": 1},
            {"min_p": 2},
            {"frequency_penalty": 3},
            {"presence_penalty": -3},
            {"repetition_penalty": 0},
        ],
        ids=repr,
    )
    def test_a_value_out_of_range(self, client: Client, fields: dict[str, object]) -> None:
        problem = client.refusal("/v1/chat/completions", client.body("x") | fields)
        assert problem["object"] == "error"
        assert problem["type"] == "BadRequestError"
        assert problem["code"] == 400

    @pytest.mark.parametrize(
        "fields",
        [
            {"messages": "hi"},
            {"messages": [{"role": "user"}]},
            {"messages": [{"role": "alien", "content": "x"}]},
            {"temperature": "hot"},
            {"input_ids": ["a"]},
            {"cache_salt": 5},
            {"priority": "x"},
            {"n": None},
            {"logprobs": None},
            {"frequency_penalty": None},
            {"presence_penalty": None},
            {"parallel_tool_calls": None},
            {"ignore_eos": None},
            {"min_tokens": None},
            {"stream": None},
            {"response_format": {"type": "xml"}},
            {"response_format": {"type": "json_schema", "json_schema": {}}},
            {"tools": [{"type": "function", "function": {"name": 3}}]},
        ],
        ids=repr,
    )
    def test_a_value_of_another_type(self, client: Client, fields: dict[str, object]) -> None:
        problem = client.refusal("/v1/chat/completions", client.body("x") | fields)
        assert problem["object"] == "error"
        assert "http_server.py" in problem["message"]
        assert problem["type"] == "Bad Request"
        assert problem["code"] == 400

    @pytest.mark.parametrize(
        "field",
        ["temperature", "top_p", "top_k", "min_p", "seed", "stop", "tools", "response_format"],
    )
    def test_what_may_be_null(self, client: Client, field: str) -> None:
        assert client.post("/v1/chat/completions", client.body("x") | {field: None}).is_success

    @pytest.mark.parametrize(
        ("content", "media_type"),
        [(b"{nope", "application/json"), (b"", "application/json"), (b"{}", "text/plain")],
    )
    def test_a_body_that_is_no_json(self, client: Client, content: bytes, media_type: str) -> None:
        answer = client.http.post(
            "/v1/chat/completions", content=content, headers={"content-type": media_type}
        )
        assert answer.status_code == 400
        assert answer.json()["type"] == "Bad Request"

    def test_any_model_name_and_unknown_fields_are_taken(self, client: Client) -> None:
        answer = client.chat("x", model="nope", banana=1)
        assert answer["model"] == "nope"

    def test_generate_has_an_error_shape_of_its_own(self, client: Client) -> None:
        problem = client.refusal("/generate", {"sampling_params": {"max_new_tokens": 1}})
        assert set(problem) == {"error"}
        assert isinstance(problem["error"]["message"], str)


class AbortContract(Contract):
    """Requests that end before their time."""

    def test_an_aborted_request_ends_with_what_it_has(self, client: Client) -> None:
        rid = client.engine.salt()
        answers: list[dict[str, object]] = []
        body = client.body("x", rid=rid, max_tokens=client.window - 200)
        asking = threading.Thread(
            target=lambda: answers.append(
                httpx.post(f"{client.engine.url}/v1/chat/completions", json=body, timeout=60).json()
            )
        )
        asking.start()
        wait_until(lambda: client.running() == 1)
        assert client.post("/flush_cache").status_code == 400
        assert client.post("/abort_request", {"rid": rid}).status_code == 200
        asking.join(30)
        (answer,) = answers
        assert answer["choices"][0]["finish_reason"] == "abort"  # type: ignore[index]

    def test_an_unknown_rid_is_no_error(self, client: Client) -> None:
        assert client.post("/abort_request", {"rid": "nobody"}).status_code == 200

    def test_a_reader_that_leaves_ends_the_request(self, client: Client) -> None:
        body = client.body("x", stream=True, max_tokens=client.window - 200)
        with httpx.stream(
            "POST", f"{client.engine.url}/v1/chat/completions", json=body, timeout=60
        ) as answer:
            lines = answer.iter_lines()  # kept: httpx closes the answer with its iterator
            next(lines)
            wait_until(lambda: client.running() == 1)
        wait_until(lambda: client.running() == 0)

    def test_a_client_that_stops_waiting_ends_the_request(self, client: Client) -> None:
        body = client.body("x", max_tokens=client.window - 200)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{client.engine.url}/v1/chat/completions", json=body, timeout=1)
        wait_until(lambda: client.running() == 0)
