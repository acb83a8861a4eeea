"""Two real engines, each with a real tier server of its own, behind one gateway."""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.settings import AccountingSettings, ReplicasSettings, TiersSettings
from app.stack.backoff import RestartPolicy
from app.stack.running import RunningStack
from app.stack.settings import EngineOptions, StackSettings
from app.stack.stack import start_stack
from cache.tiers import TierSettings
from tests.conftest import RealEngine
from tests.e2e.replies import Reply, new_prompt
from tests.e2e.tier_stack import POOL_TOKENS
from tests.engines import flush, let_stores_end, stored, wait_until_heard
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

PROMPT_WORDS = 300
BOTH = (0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A gateway, and the parts of two replicas behind it."""

    url: str
    stacks: tuple[RunningStack, ...]

    def ask(self, prompt: str) -> Reply:
        body = {
            "model": "default", "messages": [{"role": "user", "content": prompt}],
            "max_tokens": 6, "temperature": 0, "ignore_eos": True, "logprobs": True,
            "foreword": {},
        }  # fmt: skip
        began = time.monotonic()
        made = self._http("POST", "/v1/chat/completions", json=body).json()
        (choice,) = made["choices"]
        return Reply.to(
            prompt,
            began,
            text=choice["message"]["content"],
            logprobs=tuple(token["logprob"] for token in choice["logprobs"]["content"]),
            block=made["foreword"],
        )

    def remembered(self, number: int) -> Reply:
        """A replica's cold answer to a new prompt, once its tiers have it."""
        self.only(number)
        with stored(self.stacks[number].tier_url):
            reply = self.ask(new_prompt(PROMPT_WORDS))
        assert reply.block["replica"] == f"engine-{number}"
        return reply

    def only(self, *numbers: int) -> None:
        """Send requests nowhere else."""
        for number in numbers:
            self._http("POST", f"/foreword/replicas/engine-{number}/uncordon")
        for number in set(BOTH) - set(numbers):
            self._http("POST", f"/foreword/replicas/engine-{number}/cordon")

    def flush(self, number: int) -> None:
        let_stores_end(self.stacks[number].tier_url)
        flush(self.stacks[number].engine_url)

    def ram_loads(self, number: int) -> int:
        """Chunks that a tier server gave from RAM since its start."""
        url = f"{self.stacks[number].tier_url}/foreword/status"
        told = httpx.get(url, trust_env=False).raise_for_status().json()
        return int(told["ram"]["loads"]["chunks"])

    def destroyed(self, number: int) -> int:
        """Salts whose keys a tier server has destroyed, its earlier starts included."""
        return sum(1 for _ in self.stacks[number].home.root.rglob("kv.keys/*.gone"))

    def delete_kv(self) -> int:
        return int(self._http("DELETE", "/foreword/tenants/local/kv").json()["pending"])

    def corpus(self, collection: str) -> dict[str, Any]:
        told = self._http("GET", f"/foreword/collections/{collection}").json()["corpus"]
        return dict(told or {})

    def warm(self, collection: str) -> None:
        self._http("POST", f"/foreword/collections/{collection}/warm")

    def reasons(self, number: int) -> str:
        ready = httpx.get(f"{self.url}/readyz", timeout=60, trust_env=False).json()
        return " ".join(ready["replicas"][f"engine-{number}"]["reasons"])

    def uses_tiers(self, number: int) -> bool:
        """Whether the engine's breaker is closed, and the gateway sees the server, too."""
        text = httpx.get(f"{self.stacks[number].engine_url}/metrics", trust_env=False).text
        closed = any(line.split()[0].startswith("foreword_tier_open") and line.endswith(" 0.0")
                     for line in text.splitlines() if line)  # fmt: skip
        return closed and str(self.stacks[number].tier_url) not in self.reasons(number)

    def _http(self, method: str, path: str, json: object = None) -> httpx.Response:
        url = f"{self.url}{path}"
        answer = httpx.request(method, url, json=json, timeout=60, trust_env=False)
        return answer.raise_for_status()


@contextmanager
def running_pair(homes: Sequence[Path], cache: Path, model: Path) -> Iterator[Pair]:
    """Both replicas in homes of their own, then the gateway, in the last one."""
    with ExitStack() as opened:
        parts = [start_stack(_replica(home, cache, model), say=print) for home in homes[:-1]]
        with ThreadPoolExecutor(2) as starters:  # at once, for each takes its time
            stacks = tuple(starters.map(opened.enter_context, parts))
        settings = gateway_settings(homes[-1], stacks[0].engine_url, tokenizer=model).model_copy(
            update={
                "replicas": ReplicasSettings(urls=tuple(each.engine_url for each in stacks)),
                "tiers": TiersSettings(
                    urls=tuple(str(each.tier_url) for each in stacks), break_even="warn"
                ),
                "accounting": AccountingSettings(tier_wait_s=2.0, event_wait_s=0.1),
            }
        )
        url = opened.enter_context(running_gateway(settings))
        wait_until_ready(url)
        for stack in stacks:
            engine = RealEngine(url=stack.engine_url, model_path=model, stack=stack)
            wait_until_heard(engine, url)
        yield Pair(url=url, stacks=stacks)


def _replica(home: Path, cache: Path, model: Path) -> StackSettings:
    """An engine with tiers of its own."""
    return StackSettings(
        home=home,
        cache=cache,
        base_env=dict(os.environ),
        model=str(model),
        engine=EngineOptions(pool_tokens=POOL_TOKENS),
        tiers=TierSettings(ram_gb=0.125, ssd_gb=0.25, breaker_retry_s=1.0),
        gateway=False,
        cpu=True,
        restart=RestartPolicy(first_s=0.2),
    )
