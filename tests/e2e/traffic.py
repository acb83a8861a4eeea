"""Clients that go on asking while parts of a stack are hurt."""

import itertools
import threading
import time
from collections.abc import Sequence

from tests.e2e.replies import Reply
from tests.e2e.tier_stack import TierStack, eventually


class Traffic:
    """A few clients that ask the same prompts over and over, and keep what they got.

    Together the prompts are more than the engine's pool holds, so that each has to come from the
    tiers, or be computed, every time.
    """

    def __init__(self, stack: TierStack, cold: Sequence[Reply], *, clients: int = 2) -> None:
        self.replies: list[Reply] = []
        self._stack = stack
        self._cold = {reply.prompt: reply for reply in cold}
        self._stop = threading.Event()
        self._turns = itertools.cycle(self._cold)
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(90)

    @property
    def failures(self) -> list[Reply]:
        return [reply for reply in self.replies if not reply.answered]

    @property
    def wrong(self) -> list[Reply]:
        """Answers that differ from the cold ones."""
        answers = [reply for reply in self.replies if reply.answered]
        return [reply for reply in answers if not reply.is_like(self._cold[reply.prompt])]

    @property
    def slowest_s(self) -> float:
        return max(reply.elapsed_s for reply in self.replies)

    def goes_on(self, requests: int) -> bool:
        """Whether so many more requests were answered soon."""
        enough = len(self.replies) + requests
        return eventually(lambda: len(self.replies) >= enough, 60)

    def _ask(self) -> None:
        while not self._stop.is_set():
            reply = self._stack.ask(next(self._turns))
            self.replies.append(reply)
            time.sleep(0.02 if reply.answered else 0.2)
