"""The steps of a GitHub workflow that are commands, and what they are run with."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A `run:` step."""

    name: str
    script: str


def job_steps(workflow: Path, job: str) -> Iterator[Step]:
    """The commands of a job, in their order."""
    for step in _jobs(workflow)[job]["steps"]:
        if "run" in step:
            yield Step(name=step["name"], script=step["run"])


def job_variables(workflow: Path, job: str) -> Mapping[str, str]:
    """A job's own environment, but for what only GitHub knows."""
    variables = _jobs(workflow)[job].get("env", {})
    return {name: value for name, value in variables.items() if "${{" not in value}


def _jobs(workflow: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]
    return jobs
