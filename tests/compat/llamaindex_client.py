"""What users of LlamaIndex do, with an unmodified `OpenAILike`; run with LlamaIndex's own Python.

Usage: llamaindex_client.py BASE_URL
"""

import asyncio
import sys

from llama_index.core.llms import ChatMessage
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

QUESTION = [ChatMessage(role="user", content="When does the ferry leave?")]


def chats(model: OpenAILike) -> None:
    answer = model.chat(QUESTION)
    assert answer.message.content
    assert answer.raw.usage.prompt_tokens > 0
    follow_up = [*QUESTION, answer.message, ChatMessage(role="user", content="And the next?")]
    assert model.chat(follow_up).message.content
    parts = list(model.stream_chat(QUESTION))
    assert "".join(part.delta or "" for part in parts) == parts[-1].message.content


async def awaits(model: OpenAILike) -> None:
    answer = await model.achat(QUESTION)
    assert answer.message.content
    parts = [part async for part in await model.astream_chat(QUESTION)]
    assert parts[-1].message.content


def completes(model: OpenAILike) -> None:
    assert model.complete("The ferry leaves at").text
    parts = list(model.stream_complete("The ferry leaves at"))
    assert parts[-1].text


def embeds(base_url: str) -> None:
    embeddings = OpenAILikeEmbedding(model_name="default", api_base=base_url, api_key="unused")
    vectors = embeddings.get_text_embedding_batch(["The ferry leaves at noon.", "A pier."])
    assert len(vectors) == 2
    assert len(vectors[0]) == len(embeddings.get_query_embedding("When?"))


def main() -> None:
    base_url = sys.argv[1]
    given = {"model": "default", "api_base": base_url, "api_key": "unused", "max_tokens": 24}
    chat = OpenAILike(is_chat_model=True, context_window=8192, **given)
    chats(chat)
    asyncio.run(awaits(chat))
    completes(OpenAILike(is_chat_model=False, context_window=8192, **given))
    embeds(base_url)


if __name__ == "__main__":
    main()
