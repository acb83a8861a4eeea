"""Another release of SGLang or torch is refused, and without the switch nothing happens."""

import subprocess
import sys
from pathlib import Path

import pytest

from foreword_cpu import versions

SOURCES = Path(versions.__file__).parents[1]


def installed(**found: str) -> dict[str, str]:
    return {"sglang": "0.5.23", "torch": "2.13.0+cpu"} | found


def test_the_releases_it_was_made_for_have_no_problems() -> None:
    assert versions.problems(installed().get) == []


@pytest.mark.parametrize("package", ["sglang", "torch"])
def test_another_release_is_named_with_what_to_do(package: str) -> None:
    (sentence,) = versions.problems(installed(**{package: "9.9.9"}).get)

    assert f"made for {package} {versions.MADE_FOR[package]}" in sentence
    assert "is 9.9.9" in sentence
    assert "install the engine environment" in sentence


def test_a_missing_package_is_a_problem() -> None:
    (sentence,) = versions.problems({"torch": "2.13.0"}.get)

    assert "sglang is not installed" in sentence


def test_require_exits_because_sglang_swallows_exceptions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as exit_:
        versions.require(installed(sglang="0.5.24").get)

    assert exit_.value.code == versions.EXIT_REFUSED
    assert "sglang is 0.5.24" in capsys.readouterr().err


def test_the_launcher_hears_of_a_refusal_only_on_a_cpu_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(versions, "MADE_FOR", {"sglang-of-another-age": "1"})
    monkeypatch.delenv("SGLANG_USE_CPU_ENGINE", raising=False)
    assert versions.refusal() is None

    monkeypatch.setenv("SGLANG_USE_CPU_ENGINE", "1")
    assert "sglang-of-another-age is not installed" in str(versions.refusal())


@pytest.mark.parametrize(("switch", "loaded"), [("1", "True"), ("0", "False"), (None, "False")])
def test_the_pth_hook_does_nothing_without_the_switch(switch: str | None, loaded: str) -> None:
    line = (SOURCES / "foreword_cpu.pth").read_text()
    program = f"{line}\nimport sys; print('foreword_cpu.startup' in sys.modules, len(sys.modules))"
    environment = {"PYTHONPATH": str(SOURCES)}
    if switch is not None:
        environment["SGLANG_USE_CPU_ENGINE"] = switch

    output = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()

    assert output[0] == loaded
    assert int(output[1]) < 150, "the hook runs at every start of the interpreter"
