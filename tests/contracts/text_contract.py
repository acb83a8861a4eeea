"""How an engine turns text into ids."""

import orjson

from prompts import Message, canonical_tools, load_tokenizer
from prompts.plain_values import plain_message
from tests.contracts.client import Client, Contract


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

    def test_tools_and_calls_are_tokenized_as_they_are_rendered_locally(
        self, client: Client
    ) -> None:
        """Whatever order and spelling a client gave them, once they are canonical."""
        local = load_tokenizer(client.engine.model_path)
        schema = {
            "type": "object",
            "required": ["who", "n"],
            "properties": {"who": {"enum": ["é"]}},
        }
        tools = [
            {"type": "function", "function": {"name": "price", "parameters": schema}},
            {"type": "function", "function": {"name": "now", "strict": True, "description": "<"}},
        ]
        call = {"name": "price", "arguments": '{"who": "\\u00e9", "n":1.50, "all": [1e3, null]}'}
        messages = [
            {"role": "system", "content": "Use the tools."},
            {"role": "user", "content": "What does it cost?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": "call_1", "name": "price", "content": '{"p": 6.250}'},
        ]
        ours = local.encode_messages([plain_message(m) for m in messages], canonical_tools(tools))
        sent = [orjson.loads(tool.json) for tool in canonical_tools(tools)]
        answer = client.post("/v1/tokenize", {"messages": messages, "tools": sent}).json()
        assert tuple(answer["tokens"]) == ours
        bare = client.post("/v1/tokenize", {"messages": messages}).json()
        assert tuple(bare["tokens"]) == local.encode_messages([plain_message(m) for m in messages])

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
