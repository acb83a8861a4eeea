"""The engine's environment: made, found again, repaired, refused, by the real pip."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from app.stack.deploy_files import DeployFiles, environment_digest, find_deploy_files
from app.stack.distributions import broken_distributions, site_packages
from app.stack.environment import ensure_environment, find_problem
from app.stack.environment_plan import (
    EngineEnvironment,
    EnvironmentPlan,
    plan_environment,
    python_tag,
)
from app.stack.errors import (
    DiskFullError,
    HashMismatchError,
    InstallFailedError,
    PackageIndexUnreachableError,
    PackageMissingError,
)
from app.stack.progress import silent
from tests.app.stack.children import eventually, is_alive, run_script
from tests.app.stack.tiny import tiny_plan, write_deploy, write_wheel

# They run pip many times, which takes a minute: with the engine's own tests.
pytestmark = pytest.mark.engine


@pytest.fixture
def own(tmp_path: Path, environment: EngineEnvironment, deploy: DeployFiles) -> EnvironmentPlan:
    """A finished environment that a test may damage; a copy, because making one takes seconds."""
    engines = tmp_path / "engine"
    shutil.copytree(environment.path, engines / environment.path.name, symlinks=True)
    return tiny_plan(deploy, engines)


def start_bare(plan: EnvironmentPlan, finished: EngineEnvironment) -> None:
    """Puts a half-made environment there: pip and nothing else, as after an early kill."""
    shutil.copytree(finished.path, plan.path, symlinks=True)
    (plan.path / "complete.json").unlink()
    for path in site_packages(plan.path).glob("[tf][io][nr]*"):  # tiny_…, foreword_…
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def python_says(plan: EnvironmentPlan, code: str) -> str:
    command = [str(EngineEnvironment(plan.path).python), "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_it_holds_the_locked_packages_and_the_plugins(
    environment: EngineEnvironment, deploy: DeployFiles, cache: Path
) -> None:
    plan = tiny_plan(deploy, cache / "engine")
    assert python_says(plan, "import tiny_one, tiny_two, foreword_guard, foreword_cpu") == ""
    assert json.loads(plan.marker.read_bytes())["python"] == python_tag()
    assert environment.path.parent == cache / "engine"


def test_a_finished_one_is_found_and_left_alone(own: EnvironmentPlan) -> None:
    before = own.marker.stat().st_mtime_ns
    lines: list[str] = []
    assert ensure_environment(own, say=lines.append).path == own.path
    assert lines == []
    assert own.marker.stat().st_mtime_ns == before


@pytest.mark.parametrize("damage", ["files", "no python", "wrong version"])
def test_a_damaged_one_is_repaired(own: EnvironmentPlan, damage: str) -> None:
    site = site_packages(own.path)
    match damage:
        case "files":
            os.truncate(site / "tiny_one.py", 10)
            (site / "tiny_two-1.0.dist-info" / "RECORD").unlink()
            (site / "foreword_guard" / "tier.py").unlink()
            assert len(list(broken_distributions(own.path))) == 3
        case "no python":
            EngineEnvironment(own.path).python.unlink()
        case "wrong version":
            info = site / "tiny_two-1.0.dist-info"
            info.rename(site / "tiny_two-2.0.dist-info")
            metadata = site / "tiny_two-2.0.dist-info" / "METADATA"
            metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 2.0"))
    assert find_problem(own) is not None
    lines: list[str] = []
    ensure_environment(own, say=lines.append)
    assert "repairing" in lines[0]
    assert find_problem(own) is None
    assert python_says(own, "import tiny_one; print(len(open(tiny_one.__file__).read()))") == "100"


def test_callers_at_the_same_time_make_it_once(
    tmp_path: Path, deploy: DeployFiles, environment: EngineEnvironment
) -> None:
    """And the one who makes it says what it does and how long that takes."""
    plan = tiny_plan(deploy, tmp_path / "engine")
    start_bare(plan, environment)
    lines: list[str] = []
    callers = [
        threading.Thread(target=ensure_environment, args=(plan,), kwargs={"say": lines.append})
        for _ in range(3)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sum("ready after" in line for line in lines) == 1
    assert sum("waiting for another" in line for line in lines) == 2
    assert any("2 packages" in line and "usually" in line for line in lines)


def test_a_killed_installer_leaves_no_pip_and_the_next_one_finishes(
    tmp_path: Path, environment: EngineEnvironment
) -> None:
    """SIGKILL in the middle; then the same call again."""
    plan = tiny_plan(write_deploy(tmp_path / "deploy"), tmp_path / "engine")
    start_bare(plan, environment)
    installer = run_script(
        """
        import sys
        from pathlib import Path
        from app.stack.environment import ensure_environment
        from app.stack.deploy_files import DeployFiles
        from tests.app.stack.tiny import tiny_plan
        deploy = Path(sys.argv[1])
        files = DeployFiles(lock=deploy / "engine" / "requirements-cpu.lock",
                            plugins=(deploy / "engine-guard", deploy / "engine-cpu"))
        plan = tiny_plan(files, Path(sys.argv[2]))
        ensure_environment(plan, say=lambda line: print(line, flush=True))
        """,
        str(tmp_path / "deploy"),
        str(tmp_path / "engine"),
        cwd=Path(__file__).parents[3],
    )
    with installer:
        assert installer.stdout is not None
        assert "repairing it (it is half made)" in installer.stdout.readline()
        assert eventually(lambda: bool(pips(tmp_path)))
        running = pips(tmp_path)
        installer.kill()
    assert eventually(lambda: not any(is_alive(pid) for pid in running))
    assert find_problem(plan) == "it is half made"
    ensure_environment(plan, say=silent)
    assert find_problem(plan) is None


def pips(folder: Path) -> list[int]:
    """Running pips of an environment below a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].startswith(bytes(folder)) and words[1:3] == [b"-m", b"pip"]:
            found.append(int(entry.parent.name))
    return found


def test_other_plugin_sources_reuse_the_packages(own: EnvironmentPlan, tmp_path: Path) -> None:
    """A new digest, a new folder, and nothing fetched: the packages are linked from the old one."""
    deploy = write_deploy(tmp_path / "deploy")
    (deploy.plugins[1] / "src" / "foreword_cpu" / "__init__.py").write_text("NEW = 1\n")
    plan = tiny_plan(deploy, own.engines)
    assert plan.path != own.path
    lines: list[str] = []
    ensure_environment(plan, say=lines.append)
    assert "only the plugins are new" in lines[0]
    assert python_says(plan, "import foreword_cpu; print(foreword_cpu.NEW)") == "1"
    assert python_says(own, "import foreword_cpu; print(hasattr(foreword_cpu, 'NEW'))") == "False"
    assert find_problem(own) is None


def test_a_file_with_another_hash_is_refused(
    tmp_path: Path, environment: EngineEnvironment
) -> None:
    plan = tiny_plan(write_deploy(tmp_path / "deploy"), tmp_path / "engine")
    start_bare(plan, environment)
    write_wheel(tmp_path / "deploy" / "wheels", "tiny-two", payload_bytes=101)
    with pytest.raises(HashMismatchError, match="tiny-two"):
        ensure_environment(plan, say=silent)
    assert find_problem(plan) == "it is half made"


def test_a_package_that_is_not_there_is_named(
    tmp_path: Path, environment: EngineEnvironment
) -> None:
    plan = tiny_plan(write_deploy(tmp_path / "deploy"), tmp_path / "engine")
    start_bare(plan, environment)
    (tmp_path / "deploy" / "wheels" / "tiny_one-1.0-py3-none-any.whl").unlink()
    with pytest.raises(PackageMissingError, match=r"tiny-one==1\.0"):
        ensure_environment(plan, say=silent)


def test_no_network_is_one_sentence(own: EnvironmentPlan, tmp_path: Path) -> None:
    """An index at an address where nothing listens."""
    (tmp_path / "empty").mkdir()
    env = {
        **own.base_env,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "0",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": str(tmp_path / "empty"),
        "PIP_RETRIES": "1",
    }
    own.marker.unlink()
    shutil.rmtree(site_packages(own.path) / "tiny_one-1.0.dist-info")
    plan = EnvironmentPlan(files=own.files, path=own.path, base_env=env, needs_bytes=1)
    with pytest.raises(PackageIndexUnreachableError, match="check the network"):
        ensure_environment(plan, say=silent)


def test_a_failing_check_is_reported_with_its_words(own: EnvironmentPlan) -> None:
    plan = plan_environment(
        own.files, engines=own.engines, base_env=own.base_env, check_module="no_such_module"
    )
    with pytest.raises(InstallFailedError, match="No module named no_such_module"):
        ensure_environment(plan, say=silent)


def test_too_little_space_is_refused_before_anything_is_fetched(
    tmp_path: Path, deploy: DeployFiles
) -> None:
    plan = EnvironmentPlan(
        files=deploy, path=tmp_path / "engine" / "x", base_env=os.environ, needs_bytes=2**60
    )
    with pytest.raises(DiskFullError, match="FOREWORD_CACHE"):
        ensure_environment(plan, say=silent)
    assert not plan.path.exists()


ON_A_SMALL_DISK = """
import subprocess, sys
from pathlib import Path
from app.stack.environment import ensure_environment, find_problem
from app.stack.errors import DiskFullError
from app.stack.progress import silent
from tests.app.stack.tiny import tiny_plan, write_deploy

disk = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", str(disk)], check=True)
plan = tiny_plan(write_deploy(disk.parent / "deploy", payload_bytes=20_000_000), disk / "engine")
try:
    ensure_environment(plan, say=silent)
except DiskFullError as error:
    print(error)
subprocess.run(["mount", "-o", "remount,size=300m", str(disk)], check=True)
ensure_environment(plan, say=silent)
print(find_problem(plan))
"""


def test_a_full_disk_in_the_middle_is_one_sentence(tmp_path: Path) -> None:
    """pip runs out of space on a disk of 60 MB; after space was made, the next call finishes.

    In a mount namespace of its own, for which one need not be root.
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", sys.executable, "-c", ON_A_SMALL_DISK, str(disk)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sentence, problem = done.stdout.splitlines()
    assert sentence.startswith(f"the disk that holds {disk}/engine/")
    assert "is full: free about" in sentence
    assert problem == "None"


def test_the_digest_changes_with_lock_plugins_and_python(tmp_path: Path) -> None:
    deploy = write_deploy(tmp_path / "deploy")
    first = environment_digest(deploy, python_tag="a")
    assert first != environment_digest(deploy, python_tag="b")
    leftovers = deploy.plugins[0] / "src" / "foreword_guard" / "__pycache__"
    leftovers.mkdir()
    (leftovers / "x.pyc").write_bytes(b"x")
    assert environment_digest(deploy, python_tag="a") == first
    deploy.lock.write_text(deploy.lock.read_text() + "# more\n")
    assert environment_digest(deploy, python_tag="a") != first


def test_this_installation_has_its_deploy_files() -> None:
    deploy = find_deploy_files()
    assert deploy.lock.is_file()
    assert [plugin.name for plugin in deploy.plugins] == ["engine-guard", "engine-cpu"]
    assert all((plugin / "pyproject.toml").is_file() for plugin in deploy.plugins)


def test_ctrl_c_ends_pip(own: EnvironmentPlan, tmp_path: Path) -> None:
    """KeyboardInterrupt in the installer: no pip stays behind."""
    own.marker.unlink()

    def interrupt() -> None:
        assert eventually(lambda: bool(pips(tmp_path)))
        signal.raise_signal(signal.SIGINT)

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    with pytest.raises(KeyboardInterrupt):
        ensure_environment(own, say=silent)
    watcher.join()
    assert not pips(tmp_path)
