"""What lasting trouble writes into the log."""

from structlog.testing import capture_logs

from app.trouble import AGAIN_S, Trouble


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_hour_of_trouble_is_a_line_a_minute() -> None:
    clock = Clock()
    with capture_logs() as lines:
        trouble = Trouble("table_unwritable", clock=clock)
        for _ in range(3600):
            trouble.failed("OperationalError")
            clock.now += 1
    assert len(lines) == 3600 / AGAIN_S
    assert [line["times"] for line in lines[:3]] == [1, 61, 121]
    assert {line["log_level"] for line in lines} == {"warning"}


def test_other_trouble_is_told_at_once_and_so_is_the_end() -> None:
    with capture_logs() as lines:
        trouble = Trouble("table_unwritable", clock=Clock())
        trouble.failed("OperationalError")
        trouble.failed("InterfaceError")
        trouble.failed("InterfaceError")
        trouble.worked()
        trouble.worked()
        trouble.failed("InterfaceError")
    told = [(line["event"], line["problem"], line["times"]) for line in lines]
    assert told == [
        ("table_unwritable", "OperationalError", 1),
        ("table_unwritable", "InterfaceError", 1),
        ("table_unwritable_no_more", "InterfaceError", 2),
        ("table_unwritable", "InterfaceError", 1),
    ]
