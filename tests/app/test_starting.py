"""What a start fails of is told in a sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from app.cli import main
from app.errors import InvalidSettingError
from app.gateway_file import announced, announced_url, local_url
from app.main import create_app
from app.settings import DatabaseSettings, Settings
from app.stack.ports import free_ports
from app.starting import Starting, read_settings
from tests.gateways import gateway_settings


def started(settings: Settings) -> tuple[Starting, list[str]]:
    """An app that was asked to start, and what it answered with."""
    starting, told = Starting(create_app(settings)), list[str]()

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        told.append(message["type"] + message.get("message", ""))

    async def start() -> None:
        await starting({"type": "lifespan", "asgi": {}, "state": {}}, receive, send)

    try:
        anyio.run(start)
    finally:
        starting.close()
    return starting, told


def on_database(url: str) -> Callable[[Settings], Settings]:
    database = DatabaseSettings(url=SecretStr(url))
    return lambda settings: settings.model_copy(update={"database": database})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (on_database("foo"), "it is not a URL"),
        (on_database("postgresql://u:s3cret@h:port/x"), "in FOREWORD_DATABASE__URL can't be used"),
        (on_database("mysql://u:s3cret@h/x"), "only postgresql:// and sqlite://"),
        (on_database("postgresql://u:s3cret@127.0.0.1:1/x"), "Connection refused"),
        (lambda s: s.model_copy(update={"home": Path("/proc/nowhere")}), "/proc/nowhere"),
        (lambda s: s.model_copy(update={"home": Path("/dev/null/x")}), "Not a directory"),
        pytest.param(
            lambda s: s.model_copy(update={"templates": s.home / "no"}),
            "there is no folder",
            marks=pytest.mark.slow,  # it comes last
        ),
    ],
)
def test_a_start_that_fails_is_a_sentence(
    tmp_path: Path, change: Callable[[Settings], Settings], says: str
) -> None:
    settings = change(gateway_settings(tmp_path, "http://127.0.0.1:9"))
    starting, told = started(settings)
    assert told == ["lifespan.startup.failed"]
    assert says in str(starting.failure)
    assert "\n" not in str(starting.failure)
    assert "s3cret" not in str(starting.failure)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("FOREWORD_DATABASE__URL_FILE", "/nowhere", "URL_FILE: /nowhere can't be read"),
        ("FOREWORD_REPLICAS__URLS", "http://a", """written as '["http://a"]'"""),
        ("FOREWORD_WIRE__HEADERS", "-1", "FOREWORD_WIRE__HEADERS: "),
        ("FOREWORD_GATEWAY__HOST", "203.0.113.7", "can't listen on 203.0.113.7"),
    ],
)
@pytest.mark.parametrize("command", ["serve", "up"])
def test_settings_that_cannot_be_are_a_sentence_and_status_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, name: str, value: str, says: str
) -> None:
    if command == "up" and name == "FOREWORD_GATEWAY__HOST":
        pytest.skip("an option of this command")
    monkeypatch.setenv("FOREWORD_GATEWAY__ALLOW_WITHOUT_KEYS", "true")
    monkeypatch.setenv(name, value)
    done = CliRunner().invoke(main, [command], env={"FOREWORD_HOME": str(tmp_path)})
    assert done.exit_code == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_toml_file_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "foreword.toml").write_text("[gateway")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["serve"])
    assert done.exit_code == 2
    assert done.stderr.startswith("foreword.toml can't be used: ")
    (tmp_path / "foreword.toml").write_text('[gateway]\nport = "x"')
    with pytest.raises(InvalidSettingError, match=r"^foreword.toml, `port` under \[gateway\]: "):
        read_settings()


def test_a_served_gateway_is_found_by_its_home(tmp_path: Path) -> None:
    assert announced_url(tmp_path) is None
    with announced(tmp_path, "http://127.0.0.1:1"):
        assert announced_url(tmp_path) == "http://127.0.0.1:1"
        with announced(tmp_path, "http://127.0.0.1:2"):
            assert announced_url(tmp_path) == "http://127.0.0.1:2"
    assert announced_url(tmp_path) is None
    (tmp_path / "run" / "gateway.json").write_text('{"url": "http://127.0.0.1:3", "pid": 4194399}')
    assert announced_url(tmp_path) is None, "that process has ended"
    (tmp_path / "run" / "gateway.json").write_text("[]")
    assert announced_url(tmp_path) is None


def test_commands_ask_the_gateway_that_serves_their_home(tmp_path: Path) -> None:
    [port] = free_ports(1)
    with announced(tmp_path, f"http://127.0.0.1:{port}"):
        done = CliRunner().invoke(main, ["keys", "list", "--home", str(tmp_path)])
    assert done.exit_code == 3
    assert f"no gateway answers at http://127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:5"),
        ("0.0.0.0", "http://127.0.0.1:5"),
        ("::", "http://127.0.0.1:5"),
        ("fd00::1", "http://[fd00::1]:5"),
    ],
)
def test_how_it_is_reached_from_here(host: str, url: str) -> None:
    assert local_url(host, 5) == url


def test_a_new_home_is_its_owners_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    starting, _ = started(on_database("mysql://h/x")(gateway_settings(home, "http://127.0.0.1:9")))
    assert starting.failure is not None
    assert home.stat().st_mode & 0o077 == 0
