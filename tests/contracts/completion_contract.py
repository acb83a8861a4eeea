"""How an engine goes on with a prompt of no chat: `POST /v1/completions`."""

from typing import Any

import orjson

from tests.contracts.client import Client, Contract, Json


class CompletionContract(Contract):
    """What the gateway reads of text completions."""

    def test_ids_in_give_text_ids_and_usage(self, client: Client) -> None:
        ids = client.ids(40)
        answer = client.post("/v1/completions", _body(client, ids)).json()
        [choice] = answer["choices"]
        assert answer["object"] == "text_completion"
        assert choice["prompt_token_ids"] == ids
        assert len(choice["token_ids"]) == 3
        text = client.post("/detokenize", {"tokens": choice["token_ids"]}).json()["text"]
        assert choice["text"].strip() == text.strip()
        assert choice["finish_reason"] == "length"
        assert answer["usage"]["prompt_tokens"] == len(ids)
        assert answer["usage"]["completion_tokens"] == 3

    def test_a_text_is_tokenized_with_its_marks(self, client: Client) -> None:
        text = "document count <|im_end|> answer"
        told = client.post("/v1/tokenize", {"prompt": text}).json()["tokens"]
        answer = client.post("/v1/completions", _body(client, text)).json()
        assert answer["choices"][0]["prompt_token_ids"] == told

    def test_a_prompt_is_re_used_with_its_answer_and_by_chats_too(self, client: Client) -> None:
        ids = client.ids(8 * client.page_size)
        first = client.post("/v1/completions", _body(client, ids)).json()
        assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        longer = [*ids, *first["choices"][0]["token_ids"], *client.ids(20, seed=1)]
        again = client.post("/v1/completions", _body(client, longer)).json()
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= len(ids)
        assert again["sglext"]["cached_tokens_details"]["device"] >= len(ids)
        assert client.cached(longer) >= len(ids)

    def test_a_stream_has_ids_in_its_parts_and_ends_with_usage(self, client: Client) -> None:
        ids = client.ids(40, seed=2)
        whole = client.post("/v1/completions", _body(client, ids)).json()
        options = {"include_usage": True, "continuous_usage_stats": True}
        body = _body(client, ids, stream=True, stream_options=options)
        parts = _parts(client, body)
        choices = [choice for part in parts for choice in part["choices"]]
        assert "".join(choice["text"] for choice in choices) == whole["choices"][0]["text"]
        assert [token for choice in choices for token in choice["token_ids"]] == (
            whole["choices"][0]["token_ids"]
        )
        assert choices[0]["prompt_token_ids"] == ids
        assert choices[-1]["finish_reason"] == "length"
        assert all(part["usage"]["prompt_tokens"] == len(ids) for part in parts if part["choices"])
        assert parts[-1]["choices"] == []
        assert parts[-1]["usage"]["completion_tokens"] == 3

    def test_n_answers_and_the_prompt_echoed(self, client: Client) -> None:
        text = "open at noon"
        answer = client.post("/v1/completions", _body(client, text, n=2, echo=True)).json()
        assert [choice["index"] for choice in answer["choices"]] == [0, 1]
        assert all(choice["text"].startswith(text) for choice in answer["choices"])

    def test_an_empty_prompt_is_refused(self, client: Client) -> None:
        for prompt in ("", []):
            assert client.refusal("/v1/completions", _body(client, prompt))

    def test_most_fields_can_not_be_null(self, client: Client) -> None:
        for field in ("temperature", "top_p", "presence_penalty", "n", "max_tokens", "echo"):
            problem = client.refusal("/v1/completions", _body(client, "a") | {field: None})
            assert f"'{field}'" in problem["message"]
        assert client.post("/v1/completions", _body(client, "a") | {"seed": None}).is_success


def _body(client: Client, prompt: str | list[int], **fields: Any) -> Json:
    return {
        "model": client.model,
        "prompt": prompt,
        "max_tokens": 3,
        "temperature": 0,
        "ignore_eos": True,
        "cache_salt": client.salt,
        "return_cached_tokens_details": True,
        "return_token_ids": True,
        **fields,
    }


def _parts(client: Client, body: Json) -> list[Json]:
    with client.http.stream("POST", "/v1/completions", json=body) as answer:
        assert answer.status_code == 200, answer.read()
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    return [orjson.loads(line.removeprefix("data: ")) for line in lines[:-1]]
