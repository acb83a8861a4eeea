"""A stored conversation with the OpenAI SDK: each turn sends only what is new.

The gateway keeps the turns, and its next prompt begins with the very tokens of those before.

    export OPENAI_BASE_URL=http://127.0.0.1:8400/v1 OPENAI_API_KEY=unused
    python examples/openai_conversation.py
"""

from openai import OpenAI

client = OpenAI()
talk = client.conversations.create(metadata={"case": "example"})
for text in (
    "I would like to cross to the island with two children, a dog and a car on Saturday. "
    "What do I have to think of?",
    "And without the car?",
    "Then we'll walk. When should we be at the gate?",
):
    answer = client.responses.create(
        model="default", conversation=talk.id, input=text, max_output_tokens=60
    )
    told = (answer.model_extra or {})["foreword"]
    print(f"> {text}\n{answer.output_text}")
    print(f"re-used {told['cached_tokens']} of {told['prompt_tokens']} prompt tokens")

items = client.conversations.items.list(talk.id, order="asc")
print(f"{talk.id} holds {len(list(items))} items")
