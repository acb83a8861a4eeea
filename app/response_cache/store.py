"""Kept answers in the database, and how often they were given. All calls block."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from app.response_cache.records import KeptAnswer
from app.tables import kept_answer_hours, kept_answers

_A, _H = kept_answers.c, kept_answer_hours.c
HOUR_S = 3600
_DROPPED_AT_ONCE = 500
# Beside the answer itself.
_ROW_BYTES = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAnswer:
    """One to be kept."""

    key: str
    tenant: str
    salt: str
    answer: KeptAnswer
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Answers that were given again, with the tokens that no engine had to compute for them."""

    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def plus(self, answer: KeptAnswer) -> "Given":
        """With one more."""
        return Given(
            answers=self.answers + 1,
            prompt_tokens=self.prompt_tokens + answer.usage["prompt_tokens"],
            completion_tokens=self.completion_tokens + answer.usage["completion_tokens"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How much is kept."""

    answers: int
    bytes: int


class AnswerStore:
    """Those of all tenants."""

    def __init__(self, database: sa.Engine) -> None:
        self._database = database

    def find(self, key: str, *, tenant: str, now: float) -> KeptAnswer | None:
        """The answer under a key, unless its time is over."""
        query = sa.select(_A.answer, _A.request_id, _A.made_at).where(
            _A.key == key, _A.tenant == tenant, _A.expires_at > now
        )
        with self._database.connect() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        return KeptAnswer.unpacked(row.answer, request_id=row.request_id, made_at=row.made_at)

    def keep(self, answers: Iterable[NewAnswer], *, max_bytes: int, now: float) -> None:
        """Keep answers, the last under each key, and no more than so many bytes of all."""
        last = {new.key: new for new in answers}
        with self._database.begin() as connection:
            connection.execute(sa.delete(kept_answers).where(_A.key.in_(list(last))))
            rows = [_row(new) for new in last.values()]
            if rows:
                connection.execute(sa.insert(kept_answers), rows)
            connection.execute(sa.delete(kept_answers).where(_A.expires_at <= now))
            _make_room(connection, max_bytes)

    def drop(self, *, tenant: str | None = None, salts: Sequence[str] = ()) -> int:
        """Let go of a tenant's answers, or of those under some salts; how many that were."""
        which = _A.salt.in_(list(salts)) if tenant is None else _A.tenant == tenant
        with self._database.begin() as connection:
            return connection.execute(sa.delete(kept_answers).where(which)).rowcount

    def kept(self, *, tenant: str | None, now: float) -> Kept:
        """How much is kept, of a tenant or of all."""
        count, size = sa.func.count(), sa.func.coalesce(sa.func.sum(_A.bytes), 0)
        query = sa.select(count, size).where(_A.expires_at > now, *_of(_A.tenant, tenant))
        with self._database.connect() as connection:
            answers, size_bytes = connection.execute(query).one()
        return Kept(answers=answers, bytes=int(size_bytes))

    def count(self, given: Mapping[tuple[int, str], Given]) -> None:
        """So many more were given, by hour (since 1970) and tenant."""
        with self._database.begin() as connection:
            for (hour, tenant), more in given.items():
                changed = connection.execute(
                    sa.update(kept_answer_hours)
                    .where(_H.hour == hour, _H.tenant == tenant)
                    .values(
                        answers=_H.answers + more.answers,
                        prompt_tokens=_H.prompt_tokens + more.prompt_tokens,
                        completion_tokens=_H.completion_tokens + more.completion_tokens,
                    )
                )
                if not changed.rowcount:
                    connection.execute(
                        sa.insert(kept_answer_hours).values(
                            hour=hour,
                            tenant=tenant,
                            answers=more.answers,
                            prompt_tokens=more.prompt_tokens,
                            completion_tokens=more.completion_tokens,
                        )
                    )


def given_in(
    connection: sa.Connection, *, tenant: str | None, since_hour: int, until_hour: int
) -> Given:
    """How many were given in these hours, the last one included; of a tenant or of all."""
    sums = [
        sa.func.coalesce(sa.func.sum(column), 0)
        for column in (_H.answers, _H.prompt_tokens, _H.completion_tokens)
    ]
    query = sa.select(*sums).where(
        _H.hour >= since_hour, _H.hour <= until_hour, *_of(_H.tenant, tenant)
    )
    answers, prompt_tokens, completion_tokens = map(int, connection.execute(query).one())
    return Given(answers=answers, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)


def _of(column: sa.Column[str], tenant: str | None) -> list[sa.ColumnElement[bool]]:
    return [] if tenant is None else [column == tenant]


def _row(new: NewAnswer) -> dict[str, object]:
    packed = new.answer.packed()
    return {
        "key": new.key,
        "tenant": new.tenant,
        "salt": new.salt,
        "request_id": new.answer.request_id,
        "made_at": new.answer.made_at,
        "expires_at": new.expires_at,
        "bytes": len(packed) + _ROW_BYTES,
        "answer": packed,
    }


def _make_room(connection: sa.Connection, max_bytes: int) -> None:
    """The oldest go first."""
    while True:
        size = connection.scalar(sa.select(sa.func.coalesce(sa.func.sum(_A.bytes), 0))) or 0
        if size <= max_bytes:
            return
        oldest = sa.select(_A.key, _A.bytes).order_by(_A.made_at).limit(_DROPPED_AT_ONCE)
        over, gone = int(size) - max_bytes, list[str]()
        for row in connection.execute(oldest):
            gone.append(row.key)
            over -= row.bytes
            if over <= 0:
                break
        connection.execute(sa.delete(kept_answers).where(_A.key.in_(gone)))
