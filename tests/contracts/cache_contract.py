"""How much of a prompt an engine re-uses: arithmetic that Foreword relies on."""

import pytest

from tests.contracts.client import Client, Contract


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
