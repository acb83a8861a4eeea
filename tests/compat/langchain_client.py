"""What users of LangChain do, with an unmodified `ChatOpenAI`; run with LangChain's own Python.

Usage: langchain_client.py BASE_URL
"""

import asyncio
import sys

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings


@tool
def departures(pier: int) -> str:
    """When ships leave from a pier."""
    return f"from pier {pier} at noon"


def chats(model: ChatOpenAI) -> None:
    conversation = [SystemMessage("Be brief."), HumanMessage("When does the ferry leave?")]
    first = model.invoke(conversation)
    assert isinstance(first, AIMessage)
    assert first.content
    assert first.usage_metadata is not None
    assert first.usage_metadata["input_tokens"] > 0
    assert first.response_metadata["model_name"] != "default"
    again = model.invoke([*conversation, first, HumanMessage("And the next?")])
    assert again.usage_metadata is not None
    assert again.usage_metadata["input_token_details"]["cache_read"] > 0
    chain = ChatPromptTemplate.from_messages([("human", "When does {ship} leave?")]) | model
    assert len(chain.batch([{"ship": "the ferry"}, {"ship": "the tug"}])) == 2


def streams(model: ChatOpenAI) -> None:
    chunks = list(model.stream("When does the ferry leave?"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert whole.content
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["output_tokens"] > 0


async def awaits(model: ChatOpenAI) -> None:
    answers = await asyncio.gather(*(model.ainvoke(f"Pier {n}?") for n in range(3)))
    assert all(answer.content for answer in answers)
    assert [chunk async for chunk in model.astream("Pier 4?")]


def calls_tools(model: ChatOpenAI) -> None:
    """The simulator's model calls none; its conversation with a call in it goes through."""
    bound = model.bind_tools([departures])
    call = {"name": "departures", "args": {"pier": 3}, "id": "call_1", "type": "tool_call"}
    asked = HumanMessage("When do ships leave from pier 3?")
    result = departures.invoke(call)
    answer = bound.invoke([asked, AIMessage("", tool_calls=[call]), result])
    assert answer.content


def completes_and_embeds(base_url: str) -> None:
    text = OpenAI(model="default", base_url=base_url, api_key="unused", max_tokens=6)
    assert text.invoke("The ferry leaves at")
    assert len(text.generate(["The first pier", "The second"]).generations) == 2
    assert list(text.stream("The ferry leaves at"))
    embeddings = OpenAIEmbeddings(
        model="default", base_url=base_url, api_key="unused", check_embedding_ctx_length=False
    )
    vectors = embeddings.embed_documents(["The ferry leaves at noon.", "A pier."])
    assert len(vectors) == 2
    assert len(vectors[0]) == len(embeddings.embed_query("When?"))


def main() -> None:
    base_url = sys.argv[1]
    model = ChatOpenAI(
        model="default", base_url=base_url, api_key="unused", max_tokens=24, stream_usage=True
    )
    chats(model)
    streams(model)
    asyncio.run(awaits(model))
    calls_tools(model)
    completes_and_embeds(base_url)


if __name__ == "__main__":
    main()
