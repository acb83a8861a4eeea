"""What is judged together, what is suppressed, and what a running engine is told."""

import json
from pathlib import Path

import pytest

from app.stack import commands
from app.stack.paths import HomePaths
from app.stack.settings import EngineOptions, Model
from cache.engine_config import check_engine, lint_configs
from cache.tiers import RedisTier, TierSettings, engine_config
from prompts.lint.findings import Severity
from prompts.lint.source_file import SourceFile
from tests.conftest import RealEngine

ROOT = Path(__file__).parents[3]
INFO = {
    "model_path": "/models/qwen3",
    "page_size": 16,
    "host": "0.0.0.0",
    "enable_cache_report": True,
    "enable_metrics": True,
    "tokenizer_metrics_allowed_custom_labels": ["template", "tenant"],
    "kv_events_config": '{"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5558"}',
    "enable_lmcache": True,
    "lmcache_config_file": None,
    "speculative_algorithm": None,
    "disaggregation_mode": "null",
    "context_length": None,
    "max_total_num_tokens": 12000,
    "internal_states": [{"token_usage": 0.5}],
}  # fmt: skip


def file(name: str) -> SourceFile:
    return SourceFile(Path(name), (ROOT / name).read_bytes())


def written(name: str, text: str) -> SourceFile:
    return SourceFile(Path(name), text.encode())


def test_our_own_compose_file_is_clean() -> None:
    files = [file("docker-compose.yml"), file("deploy/compose/lmcache.yaml")]
    assert lint_configs(files).findings == ()


def test_what_foreword_up_starts_is_clean(tmp_path: Path) -> None:
    python = Path("/engine/bin/python")
    home = HomePaths(Path("/home/user/foreword"))
    tiers = TierSettings(redis=RedisTier(host="127.0.0.1", port=6001, password="secret"))
    engine = commands.engine_argv(
        python,
        model=Model(name="tiny", path="/models/0a1b", folder=Path("/models/0a1b")),
        options=EngineOptions(),
        port=5001,
        kv_events_port=5002,
        kv_events_replay_port=5003,
        tier_settings=Path("/run/lmcache.yaml"),
    )
    tier = commands.tier_argv(
        python, tiers=tiers, home=home, port=5004, http_port=5005, prometheus_port=5006
    )
    redis = commands.redis_argv(Path("/bin/redis-server"), port=6001, largest_bytes=1 << 30)
    files = [
        written("engine.sh", _line(engine)),
        written("tier.sh", _line(tier)),
        written("redis.sh", _line(redis)),
        written("lmcache.yaml", engine_config(tiers, host="127.0.0.1", port=5004)),
    ]
    assert lint_configs(files).findings == ()


def _line(argv: list[str]) -> str:
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in argv) + "\n"


def test_findings_of_several_files_come_in_the_order_of_their_places() -> None:
    files = [
        written("b.sh", "--disable-radix-cache --strip-thinking-cache\n"),
        written("a.sh", "--trust-request-chat-template\n"),
    ]
    result = lint_configs(files)
    assert [f.code for f in result.findings] == ["FW723", "FW709", "FW719"]
    assert result.files == 2


def test_a_comment_with_a_reason_suppresses_a_finding() -> None:
    text = (
        "# foreword: ignore[FW709] this engine only measures a cold start\n"
        "--disable-radix-cache\n"
        "--strip-thinking-cache  # foreword: ignore[FW719]\n"
        "--page-size 16  # foreword: ignore[FW705] never\n"
    )
    found = lint_configs([written("start.sh", text)]).findings
    assert [f.code for f in found] == ["FW904", "FW903"]


def test_a_running_engine_that_is_well_set_up_hears_nothing() -> None:
    assert check_engine(INFO, guarded=True, chunk_tokens=64) == ()
    assert check_engine(INFO) == ()


def test_a_running_engine_is_told_the_worst_first() -> None:
    info = INFO | {"enable_cache_report": False, "kv_events_config": None}
    info |= {"strip_thinking_cache": True}
    found = check_engine(info, guarded=False, chunk_tokens=40)
    assert [(f.code, f.severity) for f in found] == [
        ("FW703", Severity.ERROR),
        ("FW715", Severity.ERROR),
        ("FW706", Severity.WARNING),
        ("FW712", Severity.WARNING),
        ("FW719", Severity.NOTE),
    ]
    assert "--enable-cache-report" in found[0].message


def test_an_engine_that_reads_no_tool_calls_is_told_so_once_there_are_tools() -> None:
    unread = INFO | {"tool_call_parser": None}
    assert check_engine(unread) == ()
    (finding,) = check_engine(unread, has_tools=True)
    assert (finding.code, finding.severity) == ("FW751", Severity.WARNING)
    assert check_engine(unread | {"tool_call_parser": "qwen"}, has_tools=True) == ()
    (finding,) = check_engine(unread | {"tool_call_parser": "foreword_json"}, has_tools=True)
    assert "that a request demands" in finding.message


def test_no_key_gets_into_a_sentence() -> None:
    found = check_engine(INFO | {"api_key": "sk-secret", "admin_api_key": None})
    assert [f.code for f in found] == ["FW724"]
    assert "sk-secret" not in found[0].message


def test_an_answer_with_nothing_in_it_is_no_crash() -> None:
    assert {f.code for f in check_engine({})} == {"FW703", "FW704", "FW706"}


def test_what_a_real_engine_said_of_itself_is_understood() -> None:
    """SGLang 0.5.23 on a CPU with LMCache, started without labels and KV events."""
    info = json.loads((Path(__file__).parent / "server_info.json").read_text("utf-8"))
    found = check_engine(info, guarded=True, chunk_tokens=64)
    assert [f.code for f in found] == ["FW705", "FW706"]
    told = check_engine(info, guarded=True, chunk_tokens=64, has_tools=True)
    assert [f.code for f in told] == ["FW705", "FW706", "FW751"]
    assert [f.code for f in check_engine(info, chunk_tokens=24)] == ["FW715", "FW705", "FW706"]


@pytest.mark.engine
def test_the_real_engine_describes_itself_as_it_was_started(engine: RealEngine) -> None:
    import httpx

    info = httpx.get(f"{engine.url}/server_info", timeout=30).json()
    where = {"FW721"}  # true of a clone that lies in a temporary folder
    found = check_engine(info, guarded=True, chunk_tokens=64)
    assert {f.code for f in found} - where == set()
    broken = check_engine(info, guarded=False, chunk_tokens=info["page_size"] + 1)
    assert {f.code for f in broken} - where == {"FW712", "FW715"}
    assert json.loads(info["kv_events_config"])["replay_endpoint"]
    # It was to find a parser of tool calls, and its template shows none.
    assert info["tool_call_parser"] == "foreword_json"
    told = check_engine(info, guarded=True, chunk_tokens=64, has_tools=True)
    assert {f.code for f in told} - where == {"FW751"}
