"""What `foreword lock` says. Pure."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from prompts.lock_check import LockProblem
from prompts.lock_cost import REMEDIES, Traffic, change_sentence, gpu_s_per_s, lost_tokens

_JSON_SCHEMA_VERSION = 1


class Told(NamedTuple):
    """A problem, and what is known of the requests that it concerns."""

    problem: LockProblem
    traffic: Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOutcome:
    """How a run ended; `refused`: the lock is not current, or was not written."""

    path: Path
    templates: int
    told: tuple[Told, ...]
    check: bool
    refused: bool


def text_output(outcome: LockOutcome) -> str:
    """A line for each problem; what to do where something is to be done."""
    return "".join(
        f"{outcome.path}: {change_sentence(*told)}"
        + (f"; {REMEDIES[told.problem.fault]}\n" if outcome.refused else "\n")
        for told in outcome.told
    )


def json_output(outcome: LockOutcome) -> str:
    """For programs; what isn't known is null."""
    shown = {
        "schema_version": _JSON_SCHEMA_VERSION,
        "lock": str(outcome.path),
        "current": not outcome.refused,
        "problems": [_problem_json(*told) for told in outcome.told],
    }
    return json.dumps(shown, indent=1) + "\n"


def summary(outcome: LockOutcome) -> str:
    """One line."""
    match outcome.check, outcome.refused:
        case True, True:
            return f"{outcome.path} is not current"
        case True, False:
            return f"{outcome.path} is current: {_counted(outcome.templates)}"
        case False, True:
            return f"{outcome.path} was not written"
        case _:
            return f"wrote {outcome.path}: {_counted(outcome.templates)}"


def _counted(templates: int) -> str:
    return f"{templates} template{'' if templates == 1 else 's'}"


def _problem_json(problem: LockProblem, traffic: Traffic) -> dict[str, object]:
    lost = problem.loss
    tokens = None if lost is None else lost_tokens(lost, traffic)
    return {
        "fault": problem.fault.value,
        "template": problem.reference,
        "since": problem.since,
        "segment": None if lost is None else lost.segment,
        "invalidated_tokens": tokens,
        "gpu_s_per_s": None if tokens is None else gpu_s_per_s(tokens, traffic),
        "message": change_sentence(problem, traffic),
        "remedy": REMEDIES[problem.fault],
    }
