"""Where the settings let the gateway send requests: never to itself, nor where clouds keep the
credentials of their machines."""

import asyncio
from collections.abc import Iterator

from app.errors import InvalidSettingError
from app.fleet.addresses import Listening, problem_of_address, problem_of_literal
from app.settings import Settings
from app.tiers import beside


def listening(settings: Settings) -> Listening:
    """Where this gateway does."""
    return Listening(settings.gateway.host, settings.gateway.port)


def check_literals(settings: Settings) -> None:
    """Find what can be found without a name server, before anything is started.

    Raises:
        InvalidSettingError: names the first URL that mayn't be asked.
    """
    for setting, url in _named(settings):
        problem = problem_of_literal(url, own=listening(settings))
        if problem is not None:
            raise _refused(setting, url, problem)


async def check_names(settings: Settings) -> None:
    """The same of names, as they are now; one that isn't known may belong to what starts later.

    Raises:
        InvalidSettingError: names the first URL that mayn't be asked.
    """
    named, own = tuple(_named(settings)), listening(settings)
    problems = await asyncio.gather(*(problem_of_address(url, own=own) for _, url in named))
    for (setting, url), problem in zip(named, problems, strict=True):
        if problem is not None:
            raise _refused(setting, url, problem)


def _named(settings: Settings) -> Iterator[tuple[str, str]]:
    """Each URL, and its setting; those that are none are refused elsewhere."""
    replicas, tiers = settings.replicas, settings.tiers
    engines: tuple[str, ...] = ()
    if replicas.discovery == "static":
        engines = replicas.urls or (settings.engine.url,)
        setting = "replicas.urls" if replicas.urls else "engine.url"
        yield from ((setting, url) for url in engines)
    if tiers.url is not None:
        yield "tiers.url", tiers.url
    yield from (("tiers.urls", url) for url in tiers.urls)
    if tiers.port is not None:
        yield from (("tiers.port", beside(url, tiers.port)) for url in engines)
    if settings.shadow.url is not None:
        yield "shadow.url", settings.shadow.url


def _refused(setting: str, url: str, problem: str) -> InvalidSettingError:
    return InvalidSettingError(setting, f"{url} can't be asked: {problem}")
