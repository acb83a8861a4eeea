"""A program that asks a model; its prompt opens with what never changes."""

from openai import OpenAI

RULES = "You are the support assistant of the Skerrow ferry. Answer in one or two sentences."


def ask(client: OpenAI, question: str) -> str | None:
    answer = client.chat.completions.create(
        model="default",
        messages=[
            {"role": "system", "content": RULES},
            {"role": "user", "content": question},
        ],
    )
    return answer.choices[0].message.content
