"""`foreword plan --evaluate COLLECTION`: the collection's own questions, asked in each mode."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import click
import httpx
from rich.console import Console
from rich.progress import Progress

from app.commands.gateway import GatewayAnswerError, checked, error_message, gateway
from app.commands.plan_options import PlanInputError
from app.commands.plan_questions import QuestionLine, read_questions
from app.modes.scoring import exact_match, judged, token_f1

Command = TypeVar("Command", bound=Callable[..., Any])
Score = Callable[[httpx.Client, QuestionLine, str], float | None]
"""0 to 1; None where a judge said neither yes nor no."""

_OPTIONS = (
    click.option("--evaluate", metavar="COLLECTION", help="ask its questions in each mode"),
    click.option(
        "--questions",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        help='JSON lines: {"question": "…", "answers": ["…"]}',
    ),
    click.option(
        "--metric",
        type=click.Choice(["token_f1", "exact_match"]),
        default="token_f1",
        show_default=True,
    ),
    click.option(
        "--judge",
        metavar="TEMPLATE",
        help="a template whose answer is yes or no, instead: judge, or one of your own",
    ),
    click.option(
        "--mode",
        "modes",
        type=click.Choice(["rag", "cag", "hybrid"]),
        multiple=True,
        default=["rag", "cag"],
        show_default=True,
        help="to be asked in",
    ),
    click.option("--max-tokens", type=click.IntRange(1), default=48, show_default=True),
)


def evaluation_options(command: Command) -> Command:
    """The options of an evaluation."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def evaluated(options: dict[str, Any], *, output: str, url: str | None, home: Path) -> str:
    """Ask, score, have the gateway keep the scores; what came of it, as text or JSON.

    Raises:
        PlanInputError: no questions, or some that can't be read.
        GatewayAnswerError: the gateway couldn't answer one.
    """
    if options["questions"] is None:
        raise PlanInputError("--evaluate needs --questions FILE.jsonl beside it")
    collection, questions = options["evaluate"], read_questions(options["questions"])
    score = _judge(options["judge"]) if options["judge"] else _metric(options["metric"])
    with gateway(url, home) as client:
        plan = _plan(client, collection)
        revision = plan["modes"][0]["revision"]
        asked = {
            mode: _ask_all(client, collection, mode, questions, score, options["max_tokens"])
            for mode in dict.fromkeys(options["modes"])
        }
        given = {mode: found for mode, found in asked.items() if isinstance(found, list)}
        skipped = {mode: found for mode, found in asked.items() if isinstance(found, str)}
        if not given:
            raise GatewayAnswerError("; ".join(skipped.values()))
        scores = _known_in_all(given, options["judge"])
        body = {
            "metric": "judge" if options["judge"] else options["metric"],
            "revision": revision,
            "model": plan["model"],
            "scores": scores,
        }
        path = f"/foreword/plan/quality/{quote(collection, safe='')}"
        stored = checked(client.put(path, json=body)).json()
    unknown = len(questions) - len(next(iter(scores.values())))
    result = {
        "schema_version": 1,
        "collection": collection,
        "skipped": skipped,
        "unknown": unknown,
        **stored,
    }
    return json.dumps(result, indent=2) if output == "json" else _text(result)


def _plan(client: httpx.Client, collection: str) -> dict[str, Any]:
    answer = checked(client.get("/foreword/plan", params={"collection": collection})).json()
    assert isinstance(answer, dict)
    return answer


def _ask_all(
    client: httpx.Client,
    collection: str,
    mode: str,
    questions: Sequence[QuestionLine],
    score: Score,
    max_tokens: int,
) -> list[float | None] | str:
    """One score a question; why, where the collection can't be asked in this mode at all."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"asking with {mode}", total=len(questions))
        scores: list[float | None] = []
        for number, line in enumerate(questions):
            answer = _answer(client, collection, mode, line.question, max_tokens)
            if answer.is_client_error and number == 0:
                return error_message(answer.text, answer.status_code)
            scores.append(score(client, line, _content(checked(answer).json(), mode)))
            progress.advance(task)
        return scores


def _answer(
    client: httpx.Client, collection: str, mode: str, question: str, max_tokens: int
) -> httpx.Response:
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "foreword": {"collection": collection, "mode": mode},
    }
    return client.post("/v1/chat/completions", json=body)


def _content(answer: dict[str, Any], mode: str) -> str:
    used = answer["foreword"]["mode"]
    if used != mode:
        raise GatewayAnswerError(f"the gateway answered with {used}, and {mode} was asked for")
    return answer["choices"][0]["message"]["content"] or ""


def _metric(name: str) -> Score:
    measure = {"exact_match": exact_match, "token_f1": token_f1}[name]
    return lambda _client, line, answer: measure(answer, line.answers)


def _judge(template: str) -> Score:
    """Scores by what a template says of question, answer and the right answers."""

    def score(client: httpx.Client, line: QuestionLine, answer: str) -> float | None:
        body = {
            "model": "default",
            "messages": [{"role": "user", "content": line.question}],
            "temperature": 0,
            "max_tokens": 8,
            "foreword": {
                "template": template,
                "variables": {"answer": answer, "expected": " / ".join(line.answers)},
            },
        }
        said = checked(client.post("/v1/chat/completions", json=body)).json()
        return judged(said["choices"][0]["message"]["content"] or "")

    return score


def _known_in_all(
    given: Mapping[str, Sequence[float | None]], judge: str | None
) -> dict[str, list[float]]:
    """The scores of the questions that have one in every mode.

    Raises:
        GatewayAnswerError: there is no such question.
    """
    rows = [row for row in zip(*given.values(), strict=True) if None not in row]
    if not rows:
        raise GatewayAnswerError(
            f"the judge {judge!r} never said yes or no in all modes; make its template ask for one "
            "word, or let a larger model judge"
        )
    columns = zip(*rows, strict=True)
    known = [[score for score in column if score is not None] for column in columns]
    return dict(zip(given, known, strict=True))


def _text(result: dict[str, Any]) -> str:
    scores = result["scores"]
    lines = [f"{result['collection']}: {scores['questions']} questions, {scores['metric']}"]
    lines += [f"  {mode:<6}  {mean:.3f}" for mode, mean in scores["mean"].items()]
    if result["unknown"]:
        lines.append(f"  {result['unknown']} questions left out: the judge said neither yes nor no")
    lines += [f"  {mode:<6}  not asked: {why}" for mode, why in result["skipped"].items()]
    lines += [
        f"  {there} after {here}: {'passes' if each['passes'] else 'blocked'}: {each['note']}"
        for here, verdicts in result["switches"].items()
        for there, each in verdicts.items()
    ]
    return "\n".join(lines)
