"""A collection's own questions: one JSON object a line, with the answers that are right."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.commands.plan_options import PlanInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLine:
    """One question, and every answer that is right."""

    question: str
    answers: tuple[str, ...]


def read_questions(path: Path) -> list[QuestionLine]:
    """The questions of a file; empty lines are passed over.

    Raises:
        PlanInputError: names the line that isn't one.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanInputError(f"{path} can't be read: {error}") from error
    questions = list(_lines(path, text))
    if not questions:
        raise PlanInputError(f"{path} holds no question")
    return questions


def _lines(path: Path, text: str) -> Iterator[QuestionLine]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise PlanInputError(f"{path}, line {number}: not JSON ({error.msg})") from error
        yield _question(value, f"{path}, line {number}")


def _question(value: object, where: str) -> QuestionLine:
    match value:
        case {"question": str() as question, "answers": [str(), *_] as answers} if (
            question.strip() and all(isinstance(each, str) for each in answers)
        ):
            return QuestionLine(question=question, answers=tuple(answers))
        case _:
            raise PlanInputError(
                f'{where}: needs {{"question": "…", "answers": ["…"]}} with at least one answer'
            )
