"""What Foreword relies on in an engine's HTTP protocol, as tests that any engine must pass.

Subclassed for the simulator (fast) and for the real SGLang, so that the one can't drift from the
other. Each test uses a salt of its own; none looks at wording or time.
"""

import json
import threading

import httpx
import openai
import pytest

from prompts import Message, load_tokenizer
from tests.contracts.client import Client, Contract, text_of, wait_until

LABELS = {"x-custom-labels": json.dumps({"template": "docqa@1", "tenant": "t1", "other": "z"})}


class CacheContract(Contract):
    """How much of a prompt is re-used."""

    def test_a_cold_prompt_reports_zero_and_no_details(self, client: Client) -> None:
        answer = client.chat(client.ids(100))
        assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
        assert "sglext" not in answer

    @pytest.mark.parametrize("beyond", [0, 1, 5])
    def test_a_repeated_prompt_is_cached_up_to_its_last_token_in_whole_pages(
        self, client: Client, beyond: int
    ) -> None:
        prompt = client.ids(6 * client.page_size + beyond)
        client.chat(prompt)
        assert client.cached(prompt) == client.page_floor(len(prompt) - 1)

    def test_only_the_shared_prefix_is_cached(self, client: Client) -> None:
        prompt = client.ids(100)
        client.chat(prompt)
        other = [*prompt[:70], prompt[70] + 1, *prompt[71:]]
        assert client.cached(other) == client.page_floor(70)
        assert client.cached(prompt) == client.page_floor(99)

    def test_an_answer_is_cached_but_for_its_last_token(self, client: Client) -> None:
        prompt = client.ids(4 * client.page_size + 3)
        answer = client.chat(
            prompt, max_tokens=2 * client.page_size, return_output_ids_in_sglext=True
        )
        output = answer["sglext"]["output_ids"][0]
        longer = prompt + output + client.ids(client.page_size, seed=1)
        assert client.cached(longer) == client.page_floor(len(prompt) + len(output) - 1)

    def test_an_answer_that_fills_a_page_only_with_its_last_token_loses_that_page(
        self, client: Client
    ) -> None:
        prompt = client.ids(3 * client.page_size)
        answer = client.chat(prompt, max_tokens=client.page_size, return_output_ids_in_sglext=True)
        longer = prompt + answer["sglext"]["output_ids"][0] + client.ids(9, seed=1)
        assert client.cached(longer) == len(prompt)

    def test_salts_and_extra_keys_isolate(self, client: Client) -> None:
        prompt = client.ids(80)
        client.chat(prompt)
        assert client.cached(prompt, cache_salt=client.engine.salt()) == 0
        assert client.cached(prompt, extra_key="k") == 0
        assert client.cached(prompt, extra_key="k") == client.page_floor(79)
        assert client.cached(prompt) == client.page_floor(79)

    def test_an_empty_salt_is_no_salt_at_all(self, client: Client) -> None:
        client.flush()
        prompt = client.ids(80, seed=77)
        client.chat(prompt, cache_salt=None)
        assert client.cached(prompt, cache_salt="") == client.page_floor(79)

    def test_a_flush_empties_the_engine_s_own_memory(self, client: Client) -> None:
        prompt = client.ids(80)
        client.chat(prompt)
        client.flush()
        assert client.cached(prompt) == 0

    def test_a_prompt_is_cached_while_its_answer_is_still_being_made(self, client: Client) -> None:
        prompt = client.ids(100)
        body = client.body(prompt, stream=True, max_tokens=client.window - 200)
        with client.http.stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.iter_lines()  # kept: httpx closes the answer with its iterator
            next(lines)
            assert client.cached(prompt, max_tokens=1) == client.page_floor(99)
            assert client.running() == 1

    def test_a_full_pool_gives_up_the_least_recently_used(self, client: Client) -> None:
        client.flush()
        prompts = client.enough_to_evict()
        for prompt in prompts[:-1]:
            client.chat(prompt, max_tokens=1)
        client.chat(prompts[0], max_tokens=1)
        client.chat(prompts[-1], max_tokens=1)
        whole = client.page_floor(len(prompts[0]) - 1)
        assert client.cached(prompts[-1], max_tokens=1) == whole
        assert client.cached(prompts[0], max_tokens=1) == whole
        assert client.cached(prompts[1], max_tokens=1) < whole

    def test_ids_and_messages_share_one_cache(self, client: Client) -> None:
        text = "The ferry leaves at nine and comes back at noon. " * 8
        client.chat(text)
        messages = [{"role": "user", "content": text}]
        ids = client.post("/v1/tokenize", {"messages": messages}).json()["tokens"]
        assert client.cached(ids) == client.page_floor(len(ids) - 1)


class UsageContract(Contract):
    """Where usage and cached tokens stand in an answer."""

    def test_usage_of_a_whole_answer(self, client: Client) -> None:
        usage = client.chat(client.ids(50), max_tokens=3)["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (50, 3)
        assert usage["total_tokens"] == 53

    def test_details_stand_beside_the_answer_when_asked_for_and_cached(
        self, client: Client
    ) -> None:
        prompt = client.ids(50)
        client.chat(prompt)
        details = client.chat(prompt)["sglext"]["cached_tokens_details"]
        assert details["device"] == client.page_floor(49)
        assert details["host"] == 0
        assert "sglext" not in client.chat(prompt, return_cached_tokens_details=None)

    def test_output_ids_are_told_when_asked_for(self, client: Client) -> None:
        prompt = client.ids(20)
        answer = client.chat(prompt, max_tokens=5, return_output_ids_in_sglext=True)
        (ids,) = answer["sglext"]["output_ids"]
        assert len(ids) == answer["usage"]["completion_tokens"] == 5
        text = client.post("/detokenize", {"tokens": ids}).json()["text"]
        assert text == answer["choices"][0]["message"]["content"]

    def test_a_stream_is_role_text_end_details_usage_done(self, client: Client) -> None:
        prompt = client.ids(50)
        client.chat(prompt)
        events = client.stream(
            prompt,
            max_tokens=4,
            stream_options={"include_usage": True},
            return_output_ids_in_sglext=True,
        )
        first, *_, end, details, usage, done = [event.data for event in events]
        assert first is not None
        assert end is not None
        assert details is not None
        assert usage is not None
        assert first["choices"][0]["delta"]["role"] == "assistant"
        assert end["choices"][0]["finish_reason"] == "length"
        assert details["choices"] == []
        assert details["sglext"]["cached_tokens_details"]["device"] == client.page_floor(49)
        assert len(details["sglext"]["output_ids"][0]) == 4
        assert usage["choices"] == []
        assert usage["usage"]["prompt_tokens_details"] == {"cached_tokens": client.page_floor(49)}
        assert usage["usage"]["completion_tokens"] == 4
        assert done is None

    def test_a_cold_stream_has_no_details(self, client: Client) -> None:
        events = client.stream(client.ids(50), stream_options={"include_usage": True})
        assert not any("sglext" in event.data for event in events if event.data)

    def test_a_stream_without_the_option_has_no_usage(self, client: Client) -> None:
        events = client.stream(client.ids(50))
        assert not any(event.data.get("usage") for event in events if event.data)
        assert events[-1].data is None

    def test_continuous_usage_stands_in_every_part_with_text(self, client: Client) -> None:
        options = {"include_usage": True, "continuous_usage_stats": True}
        events = client.stream(client.ids(40), max_tokens=3, stream_options=options)
        with_text = [
            e.data
            for e in events
            if e.data and e.data["choices"]
            if e.data["choices"][0]["delta"].get("content")
        ]
        assert with_text
        assert all(data["usage"]["prompt_tokens"] == 40 for data in with_text)

    def test_streamed_and_whole_answers_say_the_same(self, client: Client) -> None:
        prompt = client.ids(60)
        whole = client.chat(prompt, max_tokens=12)["choices"][0]["message"]["content"]
        assert text_of(client.stream(prompt, max_tokens=12)) == whole

    def test_the_rid_is_the_answer_s_id(self, client: Client) -> None:
        rid = client.engine.salt()
        assert client.chat(client.ids(20), rid=rid)["id"] == rid
        assert {e.data["id"] for e in client.stream("x", rid=rid + "s") if e.data} == {rid + "s"}

    def test_an_answer_of_no_tokens_still_caches_the_prompt(self, client: Client) -> None:
        prompt = client.ids(50)
        answer = client.chat(prompt, max_tokens=0)
        assert answer["usage"]["completion_tokens"] == 0
        assert answer["choices"][0]["finish_reason"] == "length"
        assert client.cached(prompt) == client.page_floor(49)

    def test_a_stop_string_ends_the_answer_and_is_not_said(self, client: Client) -> None:
        prompt = client.ids(60)
        said = client.chat(prompt, max_tokens=12)["choices"][0]["message"]["content"]
        stop = said[3:6]
        expected = said[: said.index(stop)]
        choice = client.chat(prompt, max_tokens=12, stop=[stop])["choices"][0]
        assert (choice["finish_reason"], choice["matched_stop"]) == ("stop", stop)
        assert choice["message"]["content"] == expected
        assert text_of(client.stream(prompt, max_tokens=12, stop=stop)) == expected

    def test_a_stop_token_ends_the_answer_and_is_not_said(self, client: Client) -> None:
        prompt = client.ids(60)
        answer = client.chat(prompt, max_tokens=3, return_output_ids_in_sglext=True)
        first = answer["sglext"]["output_ids"][0][0]
        stopped = client.chat(prompt, max_tokens=3, stop_token_ids=[first], ignore_eos=False)
        assert stopped["choices"][0]["message"]["content"] == ""
        assert stopped["choices"][0]["matched_stop"] == first
        assert stopped["usage"]["completion_tokens"] == 1
        ignored = client.chat(prompt, max_tokens=3, stop_token_ids=[first])
        assert ignored["usage"]["completion_tokens"] == 3


class TokenContract(Contract):
    """How text becomes ids."""

    def test_messages_are_tokenized_as_they_are_rendered_locally(self, client: Client) -> None:
        local = load_tokenizer(client.engine.model_path)
        messages = [
            {"role": "system", "content": "You answer from the documents below.\n\n"},
            {"role": "user", "content": "What does it cost?  Größe, naïve, 東京 \t 12.50"},
            {"role": "assistant", "content": "12.50"},
            {"role": "user", "content": "And for children?"},
        ]
        answer = client.post("/v1/tokenize", {"messages": messages}).json()
        text = local.chat.render([Message(role=m["role"], content=m["content"]) for m in messages])
        plain = {"prompt": text, "add_special_tokens": False}
        assert answer["tokens"] == client.post("/tokenize", plain).json()["tokens"]
        assert answer["count"] == len(answer["tokens"])

    def test_usage_counts_the_tokens_that_tokenize_names(self, client: Client) -> None:
        text = "What does it cost?"
        messages = [{"role": "user", "content": text}]
        count = client.post("/v1/tokenize", {"messages": messages}).json()["count"]
        assert client.chat(text)["usage"]["prompt_tokens"] == count

    def test_without_the_opening_of_the_answer(self, client: Client) -> None:
        body = {"messages": [{"role": "user", "content": "name"}]}
        whole = client.post("/v1/tokenize", body).json()["tokens"]
        start = client.post("/v1/tokenize", body | {"add_generation_prompt": False}).json()
        assert whole[: start["count"]] == start["tokens"]
        assert len(whole) > start["count"]

    def test_text_parts_are_the_same_as_text(self, client: Client) -> None:
        parts = [{"type": "text", "text": "open at noon"}]
        one = client.post("/v1/tokenize", {"messages": [{"role": "user", "content": parts}]})
        two = client.post(
            "/v1/tokenize", {"messages": [{"role": "user", "content": "open at noon"}]}
        )
        assert one.json() == two.json()

    def test_a_last_message_of_the_assistant_becomes_one_of_the_user(self, client: Client) -> None:
        def tokens(role: str, **fields: bool) -> list[int]:
            messages = [
                {"role": "user", "content": "open"},
                {"role": role, "content": "noon"},
            ]
            answer = client.post("/v1/tokenize", {"messages": messages, **fields})
            ids: list[int] = answer.json()["tokens"]
            return ids

        assert tokens("assistant") == tokens("user")
        continued = tokens("assistant", continue_final_message=True)
        opened = client.post("/v1/tokenize", {"messages": [{"role": "user", "content": "open"}]})
        said = client.post("/tokenize", {"prompt": "noon", "add_special_tokens": False})
        assert continued == opened.json()["tokens"] + said.json()["tokens"]

    def test_texts_and_ids_in_lists(self, client: Client) -> None:
        answer = client.post("/tokenize", {"prompt": ["open at noon", "name"]}).json()
        assert answer["count"] == [len(ids) for ids in answer["tokens"]]
        texts = client.post("/detokenize", {"tokens": answer["tokens"]}).json()["text"]
        assert texts == ["open at noon", "name"]

    def test_neither_prompt_nor_messages_is_refused(self, client: Client) -> None:
        assert client.refusal("/v1/tokenize", {})["object"] == "error"


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
        ],
        ids=repr,
    )
    def test_a_value_of_another_type(self, client: Client, fields: dict[str, object]) -> None:
        problem = client.refusal("/v1/chat/completions", client.body("x") | fields)
        assert problem["object"] == "error"
        assert problem["type"] == "Bad Request"
        assert problem["code"] == 400

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


class SdkContract(Contract):
    """The unmodified openai SDK and SGLang's own route."""

    def test_the_sdk_whole_and_streamed(self, client: Client) -> None:
        with openai.OpenAI(base_url=f"{client.engine.url}/v1", api_key="none") as sdk:
            assert [model.id for model in sdk.models.list()] == [client.model]
            whole = sdk.chat.completions.create(
                model=client.model,
                messages=[{"role": "user", "content": "open at noon"}],
                max_tokens=3,
                temperature=0,
                extra_body={"cache_salt": client.salt},
            )
            parts = sdk.chat.completions.create(
                model=client.model,
                messages=[{"role": "user", "content": "open at noon"}],
                max_tokens=3,
                temperature=0,
                stream=True,
                stream_options={"include_usage": True},
                extra_body={"cache_salt": client.salt},
            )
            said = [choice.delta.content or "" for part in parts for choice in part.choices]
        assert "".join(said) == whole.choices[0].message.content
        assert whole.usage is not None
        assert whole.usage.prompt_tokens_details is not None

    def test_the_sdk_raises_what_the_engine_refuses(self, client: Client) -> None:
        with (
            openai.OpenAI(base_url=f"{client.engine.url}/v1", api_key="none", max_retries=0) as sdk,
            pytest.raises(openai.BadRequestError),
        ):
            sdk.chat.completions.create(model=client.model, messages=[])

    def test_several_answers_to_one_prompt(self, client: Client) -> None:
        answer = client.chat(client.ids(30), n=2)
        assert [choice["index"] for choice in answer["choices"]] == [0, 1]
        assert answer["usage"]["prompt_tokens"] == 30
        assert answer["usage"]["completion_tokens"] == 4

    def test_generate_whole_and_streamed(self, client: Client) -> None:
        prompt = client.ids(70)
        sampling = {"max_new_tokens": 4, "temperature": 0, "ignore_eos": True}
        body = {"input_ids": prompt, "sampling_params": sampling, "cache_salt": client.salt}
        whole = client.post("/generate", body).json()
        assert whole["meta_info"]["prompt_tokens"] == 70
        assert whole["meta_info"]["cached_tokens"] == 0
        assert whole["meta_info"]["cached_tokens_details"] is None
        assert whole["meta_info"]["finish_reason"] == {"type": "length", "length": 4}
        streamed = client.post("/generate", body | {"stream": True}).text
        *parts, done = [line for line in streamed.splitlines() if line]
        assert done == "data: [DONE]"
        last = json.loads(parts[-1].removeprefix("data: "))
        assert (last["text"], last["output_ids"]) == (whole["text"], whole["output_ids"])
        assert last["meta_info"]["cached_tokens_details"]["device"] == client.page_floor(69)
        assert client.cached(prompt) == client.page_floor(69)


class EngineContract(
    CacheContract,
    UsageContract,
    TokenContract,
    AccountContract,
    ErrorContract,
    AbortContract,
    SdkContract,
):
    """All of it; subclass, and supply the fixture `engine` (see client.EngineUnderTest)."""
