"""LlamaIndex, unmodified: a chat about a collection that the gateway keeps.

The second question's prompt begins with all of the first one's, its answer included.

    pip install llama-index-llms-openai-like
    foreword ingest ferry samples/ferry
    export OPENAI_BASE_URL=http://127.0.0.1:8400/v1 OPENAI_API_KEY=unused
    python examples/llamaindex_chat.py
"""

import os

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

model = OpenAILike(
    model="default",
    api_base=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
    is_chat_model=True,
    context_window=8192,
    max_tokens=60,
    # The whole collection stands first, and the talk behind it.
    additional_kwargs={"extra_body": {"foreword": {"collection": "ferry", "mode": "cag"}}},
)

talk: list[ChatMessage] = []
for question in ("When is the last ferry back?", "And in winter?"):
    talk.append(ChatMessage(role="user", content=question))
    answer = model.chat(talk)
    talk.append(answer.message)  # as it came: another text would end the re-use here
    told = answer.raw.foreword
    print(f"> {question}\n{answer.message.content}")
    print(f"re-used {told['cached_tokens']} of {told['prompt_tokens']} prompt tokens")
