"""The Compose file as Compose sees it: variables put in, profiles chosen."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)(?::-([^}]*))?\}")


def text() -> str:
    """The file as it is written."""
    return (ROOT / "docker-compose.yml").read_text()


def variables() -> dict[str, str]:
    """Every variable with its default; what has none is empty."""
    return dict(_VARIABLE.findall(text()))


def example(name: str = ".env.example") -> dict[str, str]:
    """The variables of a file to be copied to `.env`."""
    lines = (ROOT / name).read_text().splitlines()
    pairs = [line.split("=", 1) for line in lines if line and not line.startswith("#")]
    return dict(pairs)


def interpolated(values: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The file with its variables put in, after it is parsed: these, or else their defaults."""
    told = values or {}

    def put_in(node: Any) -> Any:
        match node:
            case str():
                return _VARIABLE.sub(lambda found: told.get(found[1]) or found[2] or "", node)
            case list():
                return [put_in(each) for each in node]
            case dict():
                return {key: put_in(value) for key, value in node.items()}
        return node

    made: dict[str, Any] = put_in(yaml.safe_load(text()))
    return made


def services(values: Mapping[str, str] | None = None) -> dict[str, Any]:
    """All services, whatever their profiles."""
    made: dict[str, Any] = interpolated(values)["services"]
    return made


def started(profiles: set[str]) -> dict[str, Any]:
    """The services that `docker compose up` starts with these profiles."""
    return {
        name: service
        for name, service in services().items()
        if not service.get("profiles") or profiles & set(service["profiles"])
    }
