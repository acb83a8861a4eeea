"""A child on its leash: how it ends, and that nothing of it stays behind."""

import os
import signal
from pathlib import Path

import pytest

from app.stack import leash
from app.stack.process import CommandNotRunError, LeashedProcess
from tests.app.stack.children import eventually, is_alive, python, run_script, spec

# A child that ignores SIGTERM, with a grandchild in a session of its own; prints both pids.
STUBBORN_FAMILY = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
grandchild = subprocess.Popen(
    [sys.executable, "-I", "-S", "-c", "import signal, time; "
     "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"],
    start_new_session=True)
with open(sys.argv[1] + ".tmp", "w") as file:
    file.write(f"{os.getpid()} {grandchild.pid}")
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
time.sleep(600)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "child.log"


def start(log: Path, argv: tuple[str, ...], **options: object) -> LeashedProcess:
    with log.open("wb") as output:
        return LeashedProcess.start(spec(argv, log.parent, **options), output=output)


def family(path: Path) -> tuple[int, int]:
    assert eventually(path.exists)
    child, grandchild = path.read_text().split()
    return int(child), int(grandchild)


def test_exit_status_is_the_childs(log: Path) -> None:
    """A status passes through the leash; the output is in the log."""
    process = start(log, python("print('hello'); raise SystemExit(7)"))
    assert process.wait(60) == 7
    assert log.read_text() == "hello\n"


def test_exit_by_signal_is_128_plus_its_number(log: Path) -> None:
    process = start(log, python("import os; os.kill(os.getpid(), 9)"))
    assert process.wait(60) == 128 + 9


def test_a_command_that_cannot_run_says_why(log: Path) -> None:
    with pytest.raises(CommandNotRunError, match="no-such-program: No such file"):
        start(log, ("/no-such-program",))


def test_terminate_lets_the_child_end_in_order(log: Path) -> None:
    code = """
    import os, signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"bye\\n"), sys.exit(0)))
    print("up", flush=True)
    time.sleep(600)
    """
    process = start(log, python(code))
    assert eventually(lambda: log.read_text() == "up\n")
    process.terminate()
    assert process.wait(60) == 0
    assert log.read_text() == "up\nbye\n"


def test_a_stubborn_family_is_killed_after_the_grace(log: Path) -> None:
    """Also the grandchild that went to a session of its own and ignores SIGTERM."""
    pids = log.with_name("pids")
    process = start(log, python(STUBBORN_FAMILY, str(pids)), grace_s=0.3)
    child, grandchild = family(pids)
    assert process.pid == child
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGKILL
    assert not is_alive(child)
    assert not is_alive(grandchild)


def test_grandchildren_end_with_a_child_that_crashes(log: Path) -> None:
    pids = log.with_name("pids")
    process = start(log, python(STUBBORN_FAMILY, str(pids)))
    child, grandchild = family(pids)
    os.kill(child, signal.SIGKILL)
    assert process.wait(60) == 128 + signal.SIGKILL
    assert not is_alive(grandchild)


def test_a_killed_leash_takes_the_family_with_it(log: Path) -> None:
    """The kernel kills the child; the supervisor's next look kills the rest of the session."""
    code = """
    import os, subprocess, sys, time
    grandchild = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"])
    with open(sys.argv[1] + ".tmp", "w") as file:
        file.write(f"{os.getpid()} {grandchild.pid}")
    os.rename(sys.argv[1] + ".tmp", sys.argv[1])
    time.sleep(600)
    """
    pids = log.with_name("pids")
    process = start(log, python(code, str(pids)))
    child, grandchild = family(pids)
    os.kill(process.leash_pid, signal.SIGKILL)
    assert process.wait(60) == 128 + signal.SIGKILL
    assert eventually(lambda: not is_alive(child))
    assert not is_alive(grandchild)


def test_nothing_outlives_a_killed_supervisor(log: Path) -> None:
    """SIGKILL of the process that holds the leash: child, grandchild and shared memory go."""
    pids, name = log.with_name("pids"), f"foreword-test-{os.getpid()}"
    segment = leash.SHARED_MEMORY / f"{name}-pool"
    segment.write_bytes(b"left")
    supervisor = run_script(
        """
        import os, sys, time
        from pathlib import Path
        from app.stack.process import LeashedProcess, ProcessSpec
        LeashedProcess.start(
            ProcessSpec(argv=tuple(sys.argv[2:]), env=os.environ, cwd=Path.cwd(),
                        stop_grace_s=0.3, shared_memory=(sys.argv[1],)),
            output=2)
        time.sleep(600)
        """,
        name,
        *python(STUBBORN_FAMILY, str(pids)),
        cwd=log.parent,
    )
    with supervisor:
        child, grandchild = family(pids)
        assert is_alive(child)
        supervisor.kill()
    assert eventually(lambda: not is_alive(child))
    assert eventually(lambda: not is_alive(grandchild))
    assert eventually(lambda: not segment.exists())


def test_shared_memory_of_a_crashed_child_is_unlinked(log: Path) -> None:
    name = f"foreword-test-{os.getpid()}"
    code = "import os, sys; open(sys.argv[1], 'w').close(); os.kill(os.getpid(), 9)"
    other = leash.SHARED_MEMORY / f"other-{name}"
    other.touch()
    try:
        process = start(log, python(code, f"/dev/shm/{name}-a"), shared_memory=(f"{name}-",))
        assert process.wait(60) == 128 + signal.SIGKILL
        assert not list(leash.SHARED_MEMORY.glob(f"{name}*"))
        assert other.exists()
    finally:
        other.unlink()


def test_orphaned_memory_is_unlinked_only_if_nobody_has_it_open(log: Path) -> None:
    """Names that any program may choose: ours and dead goes, somebody's and old stays."""
    prefix = f"foreword-test-{os.getpid()}-"
    old = leash.SHARED_MEMORY / f"{prefix}old"
    old.touch()
    os.utime(old)
    code = "import os, sys; open(sys.argv[1], 'w').close(); open(sys.argv[2], 'w').close()"
    code += "; sys.stdin.close(); import time; time.sleep(1); os.kill(os.getpid(), 9)"
    mine, used = (leash.SHARED_MEMORY / f"{prefix}{name}" for name in ("mine", "used"))
    process = start(log, python(code, str(mine), str(used)), orphans=(prefix,))
    assert eventually(used.exists)
    try:
        with used.open("rb"):
            assert process.wait(60) == 128 + signal.SIGKILL
            assert not mine.exists()
            assert used.exists()
            assert old.exists()
    finally:
        old.unlink()
        used.unlink()


def test_an_orphaned_folder_goes_once_nobody_uses_anything_in_it(log: Path) -> None:
    prefix = f"foreword-test-{os.getpid()}-"
    code = "import os, sys\nfor name in sys.argv[1:]: os.mkdir(name); open(name + '/file', 'w')"
    code += "\nos.kill(os.getpid(), 9)"
    mine, used = (leash.SHARED_MEMORY / f"{prefix}{name}" for name in ("mine", "used"))
    used.mkdir()
    with (used / "file").open("w"):
        (used / "other").touch()
        process = start(log, python(code, str(mine)), orphans=(prefix,))
        assert process.wait(60) == 128 + signal.SIGKILL
        assert not mine.exists()
        assert used.exists()
    since = used.stat().st_ctime
    assert leash.unlink_orphans([prefix], since=since) == [used.name]
    assert not used.exists()


def test_children_do_not_get_the_terminals_signals(log: Path) -> None:
    """Another session, so that Ctrl-C reaches the supervisor alone."""
    process = start(log, python("import time; time.sleep(600)"))
    try:
        assert os.getsid(process.pid) == process.leash_pid != os.getsid(0)
    finally:
        process.kill()
        process.wait(60)
