"""The same content as a request, in the orders that are compared. Pure."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from bench.experiments.contents import Content, content_sha256
from bench.workloads import Workload, make_workload
from bench.workloads.file import asked

JSONObject = dict[str, Any]


class Layout(StrEnum):
    """What stands where.

    `SCAFFOLD_FIRST`: rules, documents, question, the time last. `USER_FIRST`: the question before
    all, the time last. `CLOCK_ON_TOP`: as scaffold-first, but for the time, which is at the top.
    `NAIVE`: the time, the question, documents, rules. `ONE_CHARACTER`: as scaffold-first, but when
    the cold requests were asked "Document" stood at the top, and then it is "Documents".
    """

    SCAFFOLD_FIRST = "scaffold-first"
    USER_FIRST = "user-first"
    CLOCK_ON_TOP = "clock-on-top"
    NAIVE = "naive"
    ONE_CHARACTER = "one-character"


def messages(content: Content, layout: Layout) -> list[JSONObject]:
    """A request's messages; every layout has the same parts.

    Without rules and documents there is only the question, in any layout.
    """
    if not content.rules and not content.shared:
        return _one(content.question)
    shared = "\n\n".join(content.shared)
    clock = f"The time is {content.clock}."
    rules = content.rules
    match layout:
        case Layout.SCAFFOLD_FIRST | Layout.ONE_CHARACTER:
            if layout is Layout.ONE_CHARACTER and content.phase == "warm":
                rules = rules.replace("Document", "Documents", 1)
            return _two(f"{rules}\n\n{shared}", f"{content.question}\n\n{clock}")
        case Layout.CLOCK_ON_TOP:
            return _two(f"{clock}\n\n{rules}\n\n{shared}", content.question)
        case Layout.USER_FIRST:
            return _one(f"{content.question}\n\n{shared}\n\n{rules}\n\n{clock}")
        case Layout.NAIVE:
            return _one(f"{clock}\n\n{content.question}\n\n{shared}\n\n{rules}")


def laid_out(
    name: str,
    contents: Sequence[Content],
    layout: Layout,
    *,
    max_tokens: int,
    seed: int,
    more: JSONObject | None = None,
) -> Workload:
    """Contents as a workload.

    Args:
        more: further fields of every body.
    """
    return make_workload(
        f"{name}.{layout}",
        (
            asked(
                {"messages": messages(each, layout), "temperature": 0, **(more or {})},
                id=each.id,
                max_tokens=max_tokens,
                labels={"phase": each.phase},
            )
            for each in contents
        ),
        seed=seed,
        parameters={"layout": layout.value, "content_sha256": content_sha256(contents)},
    )


def _two(system: str, user: str) -> list[JSONObject]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _one(user: str) -> list[JSONObject]:
    return [{"role": "user", "content": user}]
