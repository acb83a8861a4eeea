"""Documents with the OpenAI SDK: upload, ask, and see where the answer comes from.

The gateway decides by cost whether passages (rag) or the whole collection (cag) go into the prompt.

    export OPENAI_BASE_URL=http://127.0.0.1:8400/v1 OPENAI_API_KEY=unused
    python examples/openai_documents.py samples/ferry/fares.md samples/ferry/safety.pdf
"""

import sys
from pathlib import Path

from openai import OpenAI

client = OpenAI()
store = client.vector_stores.create(name="example")
for path in map(Path, sys.argv[1:]):
    file = client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=path)
    print(f"{path.name}: {file.status}")

for question in ("What does a dog pay?", "How long does the crossing take?"):
    answer = client.responses.create(
        model="default",
        input=question,
        tools=[{"type": "file_search", "vector_store_ids": [store.id]}],
        max_output_tokens=60,
    )
    told = (answer.model_extra or {})["foreword"]
    print(f"> {question}\n{answer.output_text}")
    for cited in told["citations"]:
        print(f"  {cited['document']}: “{cited['text']}”")
    print(f"re-used {told['cached_tokens']} of {told['prompt_tokens']} tokens, {told['mode']}")

client.vector_stores.delete(store.id)  # and the KV of its prompts
