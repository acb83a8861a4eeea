"""Traffic of a healthy deployment: nothing is lost in it, and nobody may say so."""

from collections.abc import Callable

from bench.verdicts.cases import JSONObject, Question
from bench.verdicts.client import Answer
from bench.verdicts.singles import notes, some
from bench.verdicts.texts import Texts

Ask = Callable[[Question], Answer]

_BRIEF = ("Yes.", "Go on.", "Thanks!", "Why?", "And then? What else is there to know?")


class CleanTraffic:
    """Conversations that only grow, known documents with new questions, new conversations."""

    def __init__(self, texts: Texts, ask: Ask) -> None:
        self._texts = texts
        self._ask = ask
        self._random = texts.random
        self._talks: list[tuple[str, list[JSONObject]]] = []
        self._notes = [(texts.unique(50), some(texts, 2)) for _ in range(3)]
        self._asked: list[Question] = []

    def send(self, requests: int, *, collection: str) -> list[Answer]:
        """So many requests, of all kinds by turns."""
        return [self._next(collection) for _ in range(requests)]

    def open(self, *, collection: str) -> list[Answer]:
        """The first request of each salt and template, which is no part of what is judged.

        Others may have left their scaffold in the engine, and `isolated` is right then.
        """
        question = {"role": "user", "content": self._texts.unique(12)}
        return [
            self._say("chat", [self._brief()]),
            self._say("talk", [self._brief()]),
            self._ask(Question(template="docqa", messages=[question], collection=collection)),
        ]

    def _next(self, collection: str) -> Answer:
        match self._random.randrange(7):
            case 0:
                return self._new_talk()
            case 1 | 2 if self._talks:
                return self._next_turn()
            case 3:
                heading, passages = self._random.choice(self._notes)
                return self._keep(notes(self._texts, heading, passages))
            case 4:
                place = self._random.randrange(len(self._notes))
                heading, passages = self._notes[place]
                self._notes[place] = (heading, [*passages, self._texts.note(30)])
                return self._keep(notes(self._texts, *self._notes[place]))
            case 5 if self._asked:
                return self._ask(self._random.choice(self._asked))
            case _:
                question = {"role": "user", "content": self._texts.unique(12)}
                made = Question(template="docqa", messages=[question], collection=collection)
                return self._keep(made)

    def _keep(self, question: Question) -> Answer:
        self._asked.append(question)
        return self._ask(question)

    def _new_talk(self) -> Answer:
        """With the shipped template or one of its own; some with the opening of another one."""
        template = self._random.choice(["chat", "talk"])
        self._talks.append((template, [self._brief()]))
        return self._say(*self._talks[-1])

    def _next_turn(self) -> Answer:
        template, messages = self._random.choice(self._talks)
        messages.append(self._brief())
        return self._say(template, messages)

    def _say(self, template: str, messages: list[JSONObject]) -> Answer:
        variables = {} if template == "chat" else {"heading": "You help people with their trips."}
        answer = self._ask(
            Question(
                template=template,
                messages=list(messages),
                variables=variables,
                output_tokens=self._random.randint(1, 24),
                stream=self._random.random() < 0.5,
            )
        )
        messages.append({"role": "assistant", "content": answer.text})
        return answer

    def _brief(self) -> JSONObject:
        long = self._random.random() < 0.4
        text = self._texts.unique(20) if long else self._random.choice(_BRIEF)
        return {"role": "user", "content": text}
