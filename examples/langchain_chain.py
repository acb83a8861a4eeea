"""LangChain, unmodified: a chain with fixed text first, and one whose documents the gateway finds.

Both tell what was re-used where LangChain has it: in the message's `usage_metadata`.

    pip install langchain-openai
    foreword ingest ferry samples/ferry
    export OPENAI_BASE_URL=http://127.0.0.1:8400/v1 OPENAI_API_KEY=unused
    python examples/langchain_chain.py
"""

import os

from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

RULES = (
    "You translate notices of a harbour into plain words for visitors. Keep all times, dates, "
    "names and numbers as they are. Leave out nothing, add nothing, and explain words that only "
    "sailors know. Answer with the new notice alone, in the language that is asked for."
)
GATEWAY = {"model": "default", "base_url": os.environ["OPENAI_BASE_URL"], "max_tokens": 60}

# The rules stand first, what differs last: every notice re-uses the KV of the rules.
prompt = ChatPromptTemplate.from_messages(
    [("system", RULES), ("human", "Language: {language}\n\n{notice}")]
)
chain = prompt | ChatOpenAI(**GATEWAY)
for notice in ("Pier 3 shut until 14:00, swell.", "Marigold berths at pier 1 from 9 May."):
    answer = chain.invoke({"language": "English", "notice": notice})
    usage = answer.usage_metadata
    print(f"> {notice}\n{answer.content}")
    print(f"re-used {usage['input_token_details']['cache_read']} of {usage['input_tokens']} tokens")

# No retriever, no splitter: the gateway has the collection, and puts it into the prompt.
documents = ChatOpenAI(
    **GATEWAY,
    stream_usage=True,  # the last chunk tells what was re-used
    extra_body={"foreword": {"collection": "ferry", "mode": "cag"}},
)
parts = []
for part in documents.stream("What does a bicycle pay?"):
    print(part.content, end="", flush=True)
    parts.append(part)
usage = sum(parts[1:], start=parts[0]).usage_metadata
print(f"\nre-used {usage['input_token_details']['cache_read']} of {usage['input_tokens']} tokens")
