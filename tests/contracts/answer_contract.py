"""Where an engine's answers say what: usage, cached tokens, ids, ends."""

import json

import openai
import pytest

from tests.contracts.client import Client, Contract, text_of


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
