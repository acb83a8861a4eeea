"""A real SGLang and a real LMCache server for the guard's tests, on a tiny model.

They are started apart from the run's shared stack, because these tests kill, stop and corrupt
what they use. All processes die with this one.
"""

import ctypes
import json
import os
import re
import secrets
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.stack.ports import free_ports
from tests.engines import flush

SEGMENT = re.compile(r"/dev/shm/\S+")
PAGE_TOKENS = 16
CHUNK_TOKENS = 64
DEADLINE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one request gave: its log-probabilities, and where its prefix came from."""

    logprobs: list[float]
    device: int
    storage: int
    elapsed_s: float

    def differs_from(self, other: "Answer") -> float:
        """Largest difference between the two answers' log-probabilities."""
        return max(abs(a - b) for a, b in zip(self.logprobs, other.logprobs, strict=True))


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_port() -> int:
    """A port that was free a moment ago."""
    (port,) = free_ports(1)
    return port


@dataclass
class Process:
    """A child process whose output goes to a file."""

    log: Path
    popen: subprocess.Popen[bytes] | None = None

    def spawn(self, command: list[str], environment: dict[str, str]) -> None:
        with self.log.open("ab") as output:
            self.popen = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | environment,
                preexec_fn=_die_with_parent,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self.popen is not None
        return self.popen.pid

    def signal(self, number: int) -> None:
        """Send a signal to the process and everything it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """SIGKILL it and all it started, and remove the shared memory that nobody else maps."""
        if self.popen is not None and self.popen.poll() is None:
            segments = mapped_segments(self.pid)
            self.signal(signal.SIGKILL)
            self.popen.wait()
            for segment in segments - mapped_segments(None):
                segment.unlink(missing_ok=True)

    def wait_for(self, url: str, limit_s: float) -> None:
        """Until the URL answers 200."""
        deadline_s = time.monotonic() + limit_s
        while time.monotonic() < deadline_s:
            if self.popen is not None and self.popen.poll() is not None:
                break
            with suppress(httpx.HTTPError):
                if httpx.get(url, timeout=2).status_code == 200:
                    return
            time.sleep(0.1)
        tail = self.log.read_text(errors="replace")[-4000:]
        pytest.fail(f"{url} didn't come up within {limit_s:g} s:\n{tail}")


@dataclass
class Tier:
    """An LMCache server behind `foreword_guard.tier`, restartable on the same ports."""

    python: str
    home: Path
    adapters: list[dict[str, Any]]
    program: list[str] = field(default_factory=lambda: ["-m", "foreword_guard.tier"])
    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    http_port: int = field(default_factory=free_port)
    prometheus_port: int = field(default_factory=free_port)
    shm_name: str = field(default_factory=lambda: f"foreword_test_{secrets.token_hex(4)}")

    def __post_init__(self) -> None:
        self.key_file = self.home / "kv.key"
        self.key_file.touch(mode=0o600)
        self.key_file.write_bytes(secrets.token_bytes(32))
        self.process = Process(self.home / "tier.log")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    def start(self) -> None:
        arguments = ["--host", "127.0.0.1", "--port", str(self.port)]
        arguments += ["--http-host", "127.0.0.1", "--http-port", str(self.http_port)]
        arguments += ["--prometheus-port", str(self.prometheus_port)]
        arguments += ["--chunk-size", str(CHUNK_TOKENS), "--l1-size-gb", "0.25"]
        arguments += ["--no-l1-use-lazy", "--shm-name", self.shm_name]
        arguments += ["--supported-transfer-mode", "auto", "--eviction-policy", "LRU"]
        for adapter in self.adapters:
            arguments += ["--l2-adapter", json.dumps(adapter)]
        self.process.spawn(
            [self.python, *self.program, *arguments],
            self.environment
            | {
                "FOREWORD_KV_KEY_FILE": str(self.key_file),
                "LMCACHE_TRACK_USAGE": "false",
                "LMCACHE_DISABLE_BANNER": "1",
                "OMP_NUM_THREADS": "1",
            },
        )
        self.process.wait_for(self.url + "/healthcheck", 90)

    def close(self) -> None:
        """Kill it and remove its shared memory, as the supervisor does."""
        self.process.kill()
        Path(f"/dev/shm/lmcache_l1_pool_{self.shm_name}").unlink(missing_ok=True)

    def forget_memory(self) -> None:
        """Drop L1, so that the next load comes from the adapters.

        What is still being stored stays, so that is waited for.
        """
        assert eventually(self._is_memory_empty, 60)

    def _is_memory_empty(self) -> bool:
        body = {"tier": "l1"}
        httpx.post(self.url + "/cache/clear", json=body).raise_for_status()
        status = httpx.get(self.url + "/foreword/status").json()
        return bool(status["ram"]["used_bytes"] == 0)

    def adapter(self, name: str) -> dict[str, Any]:
        """What our own status route says of one adapter."""
        answer = httpx.get(self.url + "/foreword/status").json()
        found: dict[str, Any] = {each["name"]: each for each in answer["adapters"]}[name]
        return found

    def load_of(self, request_id: str, *, held_tokens: int = 0) -> dict[str, Any] | None:
        """Which tier served a request's load; None where nothing is known."""
        url = f"{self.url}/foreword/loads/{request_id}"
        answer = httpx.get(url, params={"held": held_tokens})
        found: dict[str, Any] = answer.raise_for_status().json() if answer.is_success else {}
        assert answer.is_success or answer.status_code == 404
        return found or None

    def switch(self, adapter: str, *, enabled: bool) -> None:
        body = {"enabled": enabled, "reason": "slower than recomputing"}
        url = f"{self.url}/foreword/adapters/{adapter}"
        httpx.put(url, json=body).raise_for_status()

    def destroy_salt(self, salt: str) -> None:
        httpx.delete(f"{self.url}/foreword/salts/{salt}").raise_for_status()

    def waited_ms(self, request_id: str) -> float:
        """How long a request's look-up and load took in the tier, by LMCache's log."""
        said = re.findall(rf"in ([\d.]+) ms \(external_request_id={request_id},", self.log())
        assert said, f"no look-up of {request_id} with a hit"
        return float(said[-1])

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = httpx.get(self.url + "/status").json()
        return answer

    def log(self) -> str:
        return self.process.log.read_text(errors="replace")


@dataclass
class Engine:
    """A real SGLang server."""

    python: str
    model: str
    home: Path
    tier: Tier | None
    transfer_mode: str | None = None
    pool_tokens: int = 16000
    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.process = Process(self.home / f"engine-{self.port}.log")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        arguments = ["--model-path", self.model, "--device", "cpu", "--dtype", "float32"]
        arguments += ["--host", "127.0.0.1", "--port", str(self.port)]
        arguments += ["--page-size", str(PAGE_TOKENS), "--max-total-tokens", str(self.pool_tokens)]
        arguments += ["--enable-cache-report", "--enable-metrics", "--sleep-on-idle"]
        arguments += ["--skip-server-warmup"]
        if self.tier is not None:
            configuration = self.home / f"lmcache-{self.port}.yaml"
            configuration.write_text(self._configuration(self.tier))
            arguments += ["--enable-lmcache", "--lmcache-config-file", str(configuration)]
        self.process.spawn(
            [self.python, "-m", "foreword_guard.engine", *arguments],
            self.environment
            | {
                "SGLANG_USE_CPU_ENGINE": "1",
                "HF_HUB_OFFLINE": "1",
                "TOKENIZERS_PARALLELISM": "false",
                "OMP_NUM_THREADS": "2",
                "SGLANG_CPU_OMP_THREADS_BIND": "0-1",
                "LMCACHE_TRACK_USAGE": "false",
                "FOREWORD_TIER_DEADLINE_S": str(DEADLINE_S),
                "FOREWORD_TIER_BREAKER_RETRY_S": "2",
            },
        )
        self.process.wait_for(self.url + "/ready", 180)
        for _ in range(2):
            self.ask(random_ids(300))

    def _configuration(self, tier: Tier) -> str:
        extra: dict[str, Any] = {"lmcache.mp.mq_timeout": 3}
        if self.transfer_mode is not None:
            extra["lmcache.mp.mp_transfer_mode"] = self.transfer_mode
        settings = {"mp_host": "127.0.0.1", "mp_port": tier.port, "extra_config": extra}
        return json.dumps(settings)

    def close(self) -> None:
        self.process.kill()

    def ask(
        self,
        ids: list[int],
        *,
        new_tokens: int = 6,
        request_id: str | None = None,
        salt: str | None = None,
    ) -> Answer:
        """Greedy answer to token ids, with log-probabilities of what was generated."""
        body = {
            "rid": request_id,
            "cache_salt": salt,
            "input_ids": ids,
            "sampling_params": {
                "temperature": 0,
                "max_new_tokens": new_tokens,
                "ignore_eos": True,
            },
            "return_logprob": True,
            "logprob_start_len": -1,
        }
        started_s = time.perf_counter()
        answer = httpx.post(self.url + "/generate", json=body, timeout=60)
        elapsed_s = time.perf_counter() - started_s
        answer.raise_for_status()
        meta = answer.json()["meta_info"]
        tiers = meta.get("cached_tokens_details") or {}
        return Answer(
            logprobs=[entry[0] for entry in meta["output_token_logprobs"]],
            device=tiers.get("device", 0),
            storage=tiers.get("storage", 0),
            elapsed_s=elapsed_s,
        )

    def flush(self) -> None:
        """Empty the device's cache."""
        flush(self.url)

    def metric(self, name: str) -> float:
        """Sum of a metric's samples; fails when there is none."""
        text = httpx.get(self.url + "/metrics").text
        found = [
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if line.split("{")[0].split(" ")[0] == name
        ]
        assert found, f"no {name} in the engine's /metrics"
        return sum(found)

    def log(self) -> str:
        return self.process.log.read_text(errors="replace")


def mapped_segments(group: int | None) -> set[Path]:
    """Shared memory that the processes of a group map; None: any process."""
    found: set[Path] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            if group is None or os.getpgid(int(maps.parent.name)) == group:
                found.update(Path(name) for name in SEGMENT.findall(maps.read_text()))
    return found


def random_ids(count: int) -> list[int]:
    """Token ids that nobody has asked about before."""
    return [10 + secrets.randbelow(4000) for _ in range(count)]


def eventually(condition: Any, limit_s: float) -> bool:
    """Whether the condition became true within the limit."""
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


def settled(engine: Engine) -> None:
    """Wait until the engine uses its tier; fails when it doesn't again."""
    assert eventually(lambda: engine.metric("foreword_tier_open") == 0, 60), tail_of(engine)


def tail_of(engine: Engine) -> str:
    """What the guard logged."""
    return "\n".join(line for line in engine.log().splitlines() if "foreword_guard" in line)
