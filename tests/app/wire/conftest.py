"""A small app behind the guarded protocol."""

from collections.abc import Iterator

import pytest

from tests.app.wire.guarded import Guarded, running_guarded


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with running_guarded(tmp_path_factory.mktemp("home")) as running:
        yield running
