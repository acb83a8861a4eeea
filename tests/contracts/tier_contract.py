"""What Foreword relies on in an engine with a tier (LMCache) behind it, for any such engine."""

import pytest

from tests.contracts.client import Client, Contract, Json, wait_until

CHUNK_TOKENS = 64
"""`chunk_size` of the tier; a multiple of every page size that is tested."""


def chunk_floor(tokens: int) -> int:
    return tokens - tokens % CHUNK_TOKENS


class TierContract(Contract):
    """Subclass, and supply the fixture `engine`: with a tier of 64-token chunks, a cache report."""

    @pytest.mark.parametrize("tokens", [10 * CHUNK_TOKENS, 10 * CHUNK_TOKENS + 1, 700])
    def test_after_a_flush_whole_chunks_before_the_last_token_come_from_the_tier(
        self, client: Client, tokens: int
    ) -> None:
        prompt = client.ids(tokens)
        client.chat(prompt)
        assert self.reloaded(client, prompt) == chunk_floor(tokens - 1)

    def test_device_hits_are_told_beside_the_tier(self, client: Client) -> None:
        prompt = client.ids(300)
        client.chat(prompt)
        assert details(client.chat(prompt)) == {
            "device": client.page_floor(299),
            "host": 0,
            "storage": 0,
            "storage_backend": "LMCache",
        }

    def test_the_tier_adds_only_what_the_device_lacks(self, client: Client) -> None:
        prompt = client.ids(640)
        client.chat(prompt)
        self.reloaded(client, prompt[:300])
        told = details(client.chat(prompt))
        assert told["device"] == client.page_floor(301)
        assert told["device"] + told["storage"] == chunk_floor(639)

    def test_answers_are_kept_in_the_tier(self, client: Client) -> None:
        prompt = client.ids(CHUNK_TOKENS + 20)
        answer = client.chat(prompt, max_tokens=60, return_output_ids_in_sglext=True)
        longer = prompt + answer["sglext"]["output_ids"][0] + client.ids(CHUNK_TOKENS, seed=3)
        assert self.reloaded(client, longer) == chunk_floor(len(prompt) + 59)

    def test_the_tier_isolates_salts(self, client: Client) -> None:
        prompt = client.ids(200)
        client.chat(prompt)
        self.reloaded(client, prompt)
        assert "sglext" not in client.chat(prompt, cache_salt=client.engine.salt())
        assert "sglext" not in client.chat(prompt, extra_key="k")

    def test_less_than_a_chunk_is_not_kept(self, client: Client) -> None:
        prompt = client.ids(CHUNK_TOKENS)
        client.chat(prompt)
        client.flush()
        assert "sglext" not in client.chat(prompt)

    def test_storage_hits_are_counted(self, client: Client) -> None:
        before = client.metric("sglang:cached_tokens_total", cache_source="storage")
        loaded = 0
        prompt = client.ids(200)
        client.chat(prompt)
        loaded += self.reloaded(client, prompt)
        assert loaded == chunk_floor(199)
        wait_until(
            lambda: (
                client.metric("sglang:cached_tokens_total", cache_source="storage") - before
                >= loaded
            )
        )

    @staticmethod
    def reloaded(client: Client, prompt: list[int]) -> int:
        """Tokens that come back from the tier once the engine has forgotten them.

        The tier stores behind the engine's back, so a first look may come too early.
        """
        told: Json = {}

        def came() -> bool:
            nonlocal told
            client.flush()
            answer = client.chat(prompt)
            told = details(answer) if "sglext" in answer else {}
            return bool(told)

        wait_until(came)
        assert told["device"] == 0
        return int(told["storage"])


def details(answer: Json) -> Json:
    """Cached tokens of an answer by source."""
    block: Json = answer["sglext"]["cached_tokens_details"]
    return block
