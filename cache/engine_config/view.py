"""What the readers make of configuration files: processes with settings, each with its place.

A setting's name is the one under which SGLang's and LMCache's parsers keep it (`page_size`),
however it was spelled (`--page-size=16`, `page-size: 16`, `"page_size": 16`); Redis' are its own
words.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from prompts.lint.findings import Place
from prompts.lint.source_file import SourceFile

_NO = ("false", "no", "off", "0", "")


class Program(StrEnum):
    """What is configured."""

    ENGINE = "SGLang"
    TIER = "lmcache server"
    TIER_CLIENT = "LMCache's settings for SGLang"
    REDIS = "Redis"
    OTHER = "another program"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The characters `start <= i < stop` of a file."""

    source: SourceFile
    start: int
    stop: int

    @property
    def place(self) -> Place:
        """Line, column and byte offsets."""
        return self.source.characters(self.start, self.stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One option with its values as text; an option without a value (`--enable-metrics`) has none.

    Values that hang on the environment (`${MODEL}`) stay as they are written.
    """

    name: str
    spelling: str
    values: tuple[str, ...]
    at: Written

    @property
    def text(self) -> str:
        """The first value, or nothing."""
        return self.values[0] if self.values else ""

    @property
    def known(self) -> bool:
        """Whether nothing of it hangs on an environment that isn't seen here."""
        return not any("$" in value for value in self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A container's port on the host. `address` is the host's; nothing means all of them."""

    address: str
    container_port: int | None
    at: Written

    @property
    def open(self) -> bool:
        """Whether other machines reach it."""
        return not is_loopback(self.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What surrounds a process.

    `ipc` names its IPC namespace: containers with equal names share one. `shm_bytes` is the size
    of that namespace's /dev/shm, None where it is not known.
    """

    name: str
    aliases: frozenset[str]
    ipc: str
    shm_bytes: int | None
    ports: tuple[Port, ...] = ()
    host_network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One program with what it was told.

    Args:
        at: where it is named; findings about what is missing point here.
        whole: all of its settings are here, so that a missing one has its default. False for
            arguments without a program or a model: what they don't say isn't known.
        resolved: an engine's own account of itself, with every default filled in.
        guarded: whether Foreword's guard is known to be in this engine.
        unset: places of settings that are said to have no value.
        container: None for a process that runs on the host itself, or nobody knows where.
        on_host: it is started by a command line that is not in a container.
    """

    program: Program
    at: Written
    settings: tuple[Setting, ...] = ()
    environment: Mapping[str, Setting] = field(default_factory=lambda: MappingProxyType({}))
    unset: Mapping[str, Written] = field(default_factory=lambda: MappingProxyType({}))
    whole: bool = True
    resolved: bool = False
    guarded: bool | None = None
    container: Container | None = None
    on_host: bool = False

    def all(self, name: str) -> list[Setting]:
        """Every setting of that name, in the order of the file."""
        return [setting for setting in self.settings if setting.name == name]

    def last(self, name: str) -> Setting | None:
        """The one that counts where it is given several times."""
        found = self.all(name)
        return found[-1] if found else None

    def on(self, name: str) -> bool:
        """Whether a switch is on."""
        setting = self.last(name)
        if setting is None:
            return False
        return not setting.values or setting.text.lower() not in _NO

    def text(self, name: str, default: str = "") -> str:
        """A setting's first value."""
        setting = self.last(name)
        return setting.text if setting is not None else default

    def number(self, name: str, default: float | None = None) -> float | None:
        """A setting's value as a number; None where it can't be known from here."""
        setting = self.last(name)
        if setting is None:
            return default if self.whole else None
        return _number(setting.text)

    def lacks(self, name: str) -> bool:
        """Whether it is known that a setting is off or has no value."""
        setting = self.last(name)
        if setting is None:
            return self.whole
        return bool(setting.values) and setting.text.lower() in _NO

    def place(self, name: str) -> Place:
        """Where a setting is, or where it is missing."""
        setting = self.last(name)
        written = setting.at if setting is not None else self.unset.get(name, self.at)
        return written.place


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One `--l2-adapter`: a JSON object; `problem` says why it is none."""

    setting: Setting
    fields: Mapping[str, Any]
    problem: str | None = None

    @property
    def kind(self) -> str:
        """Its `type`, or nothing."""
        kind = self.fields.get("type")
        return kind if isinstance(kind, str) else ""


def adapters(tier: Process) -> Iterator[Adapter]:
    """The L2 adapters of `lmcache server`, in their order."""
    for setting in tier.all("l2_adapter"):
        yield _adapter(setting)


def json_object(text: str) -> Mapping[str, Any] | None:
    """A JSON object, or None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address that something listens on."""
    bare = address.strip("[]").lower()
    return bare in ("localhost", "::1") or bare.startswith("127.")


def _adapter(setting: Setting) -> Adapter:
    fields = json_object(setting.text)
    if fields is None:
        return Adapter(setting=setting, fields={}, problem="it is no JSON object")
    if not isinstance(fields.get("type"), str):
        return Adapter(setting=setting, fields=fields, problem='it has no "type"')
    return Adapter(setting=setting, fields=fields)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
