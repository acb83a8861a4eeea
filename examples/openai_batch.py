"""A batch with the OpenAI SDK: many requests in a file, answered beside live traffic.

They are sent in the order that re-uses most, and come back in the order of the file.

    export OPENAI_BASE_URL=http://127.0.0.1:8400/v1 OPENAI_API_KEY=unused
    python examples/openai_batch.py
"""

import json
import time

from openai import OpenAI

RULES = (
    "Sort letters to a ferry company. Answer with one word: praise, complaint, question or other. "
    "A letter that asks and complains is a complaint. One that is about another company is other. "
    "Thanks alone are praise, whatever they are for. Read the whole letter before you decide."
)
LETTERS = {
    "letter-1": "The crew was wonderful, thank you!",
    "letter-2": "Again twenty minutes late, and nobody said a word.",
    "letter-3": "May I bring my bicycle?",
}


def line(name: str, letter: str) -> str:
    """One request, as the batch's file has it."""
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": letter}]
    body = {"model": "default", "messages": messages, "max_tokens": 8}
    url = "/v1/chat/completions"
    return json.dumps({"custom_id": name, "method": "POST", "url": url, "body": body})


client = OpenAI()
requests = "\n".join(line(name, letter) for name, letter in LETTERS.items())
file = client.files.create(file=("letters.jsonl", requests.encode()), purpose="batch")
batch = client.batches.create(
    input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
)
while batch.status in ("validating", "in_progress"):
    time.sleep(0.5)
    batch = client.batches.retrieve(batch.id)

print(f"{batch.id} is {batch.status}")
if batch.output_file_id is None:
    raise SystemExit("no line was answered")
for row in client.files.content(batch.output_file_id).text.splitlines():
    answered = json.loads(row)
    body = answered["response"]["body"]
    told = body["foreword"]
    print(f"{answered['custom_id']}: {body['choices'][0]['message']['content']!r}")
    print(f"re-used {told['cached_tokens']} of {told['prompt_tokens']} prompt tokens")
