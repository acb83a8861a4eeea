"""A small app behind the guarded protocol."""

from collections.abc import Iterator

import pytest

from tests.app.wire.guarded import HASTY, PATIENT, Guarded, running_guarded


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with running_guarded(tmp_path_factory.mktemp("home"), PATIENT) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Its limits of time are short."""
    with running_guarded(tmp_path_factory.mktemp("home"), HASTY) as running:
        yield running
