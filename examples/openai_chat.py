"""Chat with the OpenAI SDK: answers stream, and each tells what was re-used of its prompt.

Both questions stand behind the same rules, so the second prompt begins with what the engine holds.

    export OPENAI_BASE_URL=http://127.0.0.1:8400/v1 OPENAI_API_KEY=unused
    python examples/openai_chat.py
"""

from openai import OpenAI

RULES = (
    "You are the clerk of a small harbour. Answer in one or two short sentences, politely and "
    "without jargon. Give times in the 24-hour clock and prices in euros. Piers are numbered from "
    "1 to 4, counted from the lighthouse. If you don't know something, say so and name the office "
    "at pier 1, which is open from 8:00 to 17:00 on every day of the week but Sunday."
)

client = OpenAI()
for question in ("Where is pier 4?", "When is the office open?"):
    stream = client.chat.completions.create(
        model="default",
        messages=[{"role": "system", "content": RULES}, {"role": "user", "content": question}],
        max_tokens=60,
        stream=True,
        stream_options={"include_usage": True},
    )
    print(f"> {question}")
    for chunk in stream:
        if chunk.choices:
            print(chunk.choices[0].delta.content or "", end="", flush=True)
        elif told := (chunk.model_extra or {}).get("foreword"):  # the last one
            print(f"\nre-used {told['cached_tokens']} of {told['prompt_tokens']} prompt tokens")
