"""What pytest finds: the fixture `prefix_stable` and the marker of the same name."""

from functools import partial
from typing import Any

import pytest

from foreword_pytest.assertion import assert_prefix_stable
from foreword_pytest.errors import NothingToCompareError, PrefixUnstableError

MARKER = "prefix_stable"


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(until, min_shared, runs, processes, clock, encode, timeout_s): the test returns "
        "a prompt; it is called several times and must give the same prefix each time",
    )


@pytest.fixture
def prefix_stable() -> Any:
    """`assert_prefix_stable`, without an import."""
    return assert_prefix_stable


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a marked test: what it returns is the prompt."""
    __tracebackhide__ = True
    marker = pyfuncitem.get_closest_marker(MARKER)
    if marker is None:
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    render = partial(pyfuncitem.obj, **arguments) if arguments else pyfuncitem.obj
    try:
        assert_prefix_stable(render, *marker.args, **marker.kwargs)
    except (PrefixUnstableError, NothingToCompareError) as error:
        pytest.fail(str(error), pytrace=False)
    return True
