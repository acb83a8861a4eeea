"""A real SGLang with the CPU shims, and HF transformers to compare it with."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.deploy.guard.real import Process, free_port

# Runs in the engine's environment: log-probability of each generated token, teacher-forced.
REFERENCE_PROGRAM = """
import json, sys
import foreword_cpu.startup, torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
for line in sys.stdin:
    prompt, generated = json.loads(line)
    with torch.no_grad():
        logprobs = model(torch.tensor([prompt + generated])).logits[0].log_softmax(-1)
    first = len(prompt) - 1
    print(json.dumps([logprobs[first + n, t].item() for n, t in enumerate(generated)]), flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one request gave; `cached` is by SGLang's tiers (device, host, storage)."""

    prompt: list[int]
    generated: list[int]
    logprobs: list[float]
    cached: dict[str, int]


class Reference:
    """HF transformers with the same weights, in a process of its own."""

    def __init__(self, python: str, model: str) -> None:
        self._process = subprocess.Popen(
            [python, "-W", "ignore", "-c", REFERENCE_PROGRAM, model],
            env=os.environ | {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def logprobs(self, answer: Answer) -> list[float]:
        """Log-probabilities of what the engine generated, after the same prompt."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([answer.prompt, answer.generated]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the reference process died: its message is on stderr"
        result: list[float] = json.loads(line)
        return result

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def largest_difference(answer: Answer, logprobs: list[float]) -> float:
    """Largest absolute difference of two lists of log-probabilities."""
    return max(abs(a - b) for a, b in zip(answer.logprobs, logprobs, strict=True))


@dataclass
class Engine:
    """A real SGLang server on the CPU."""

    python: str
    model: str
    home: Path
    arguments: list[str]
    pool_tokens: int
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.process = Process(self.home / f"engine-{self.port}.log")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        arguments = ["--model-path", self.model, "--device", "cpu", "--dtype", "float32"]
        arguments += ["--host", "127.0.0.1", "--port", str(self.port), "--page-size", "16"]
        arguments += ["--max-total-tokens", str(self.pool_tokens), "--enable-cache-report"]
        arguments += ["--enable-metrics", "--sleep-on-idle", "--skip-server-warmup"]
        self.process.spawn(
            [self.python, "-m", "foreword_guard.engine", *arguments, *self.arguments],
            {
                "SGLANG_USE_CPU_ENGINE": "1",
                "HF_HUB_OFFLINE": "1",
                "TOKENIZERS_PARALLELISM": "false",
                "OMP_NUM_THREADS": "1",
                "PYTHONWARNINGS": "ignore",
                "LMCACHE_TRACK_USAGE": "false",
                # A busy test machine must not look like a dead tier.
                "FOREWORD_TIER_DEADLINE_S": "20",
            },
        )
        self.process.wait_for(self.url + "/ready", 180)

    def close(self) -> None:
        self.process.kill()

    def ask(self, *prompts: list[int], new_tokens: int = 6) -> list[Answer]:
        return ask(self.url, *prompts, new_tokens=new_tokens)

    def log(self) -> str:
        return self.process.log.read_text(errors="replace")


def ask(url: str, *prompts: list[int], new_tokens: int = 6) -> list[Answer]:
    """Greedy answers to prompts that run as one batch."""
    body = {
        "input_ids": list(prompts),
        "sampling_params": {
            "temperature": 0,
            "max_new_tokens": new_tokens,
            "ignore_eos": True,
        },
        "return_logprob": True,
        "logprob_start_len": -1,
    }
    response = httpx.post(url + "/generate", json=body, timeout=100)
    response.raise_for_status()
    return [
        _answer(prompt, answer["meta_info"])
        for prompt, answer in zip(prompts, response.json(), strict=True)
    ]


def _answer(prompt: list[int], meta: dict[str, Any]) -> Answer:
    tiers = meta.get("cached_tokens_details") or {}
    return Answer(
        prompt=prompt,
        generated=[entry[1] for entry in meta["output_token_logprobs"]],
        logprobs=[entry[0] for entry in meta["output_token_logprobs"]],
        cached={name: tiers.get(name) or 0 for name in ("device", "host", "storage")},
    )
