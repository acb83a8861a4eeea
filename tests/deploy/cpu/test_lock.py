"""The lock file of the engine's environment is whole, and fits the plugin."""

import re
from pathlib import Path

from foreword_cpu.versions import MADE_FOR

FOLDER = Path(__file__).parents[3] / "deploy" / "engine"
PIN = re.compile(r"([a-z0-9-]+)==([^\s;]+)")


def locked() -> dict[str, list[str]]:
    """Hashes of each `name==version` of the lock."""
    text = (FOLDER / "requirements-cpu.lock").read_text().replace("\\\n", " ")
    entries = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {
        "==".join(PIN.match(line).groups()): re.findall(r"--hash=sha256:([0-9a-f]{64})", line)  # type: ignore[union-attr]
        for line in entries
    }


def wanted() -> set[str]:
    lines = (FOLDER / "requirements-cpu.in").read_text().splitlines()
    return {"==".join(pin.groups()) for line in lines if (pin := PIN.match(line))}


def test_every_pin_is_locked_with_hashes_and_nothing_else_is() -> None:
    pins = locked()

    assert set(pins) == wanted() | {"torch==2.13.0+cpu"}
    assert all(pins.values())


def test_the_cpu_build_of_torch_has_the_listed_digests() -> None:
    digests = re.findall(r"^[0-9a-f]{64}", (FOLDER / "torch-cpu.sha256").read_text(), re.MULTILINE)

    assert locked()["torch==2.13.0+cpu"] == digests


def test_the_lock_holds_the_releases_that_the_shims_were_made_for() -> None:
    assert {f"{name}=={version}" for name, version in MADE_FOR.items()} <= wanted()
