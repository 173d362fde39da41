"""A machine without the servers: their tests are skipped and counted loudly, or fail under STRICT=1."""

import stat
from pathlib import Path

import pytest

from tests.services import __main__ as command
from tests.services import installation
from tests.services.installation import Found, InstallRefused, Missing, services_kept_stopped

pytest_plugins = ["pytester"]

CONFTEST = """
from tests.conftest import *
from tests.services import installation

def find(service):
    return installation.Missing(service, "the finder of this test finds nothing")

installation.find = find
"""

TESTS = """
import pytest

def test_one(postgres_url): pass
def test_two(postgres_server): pass
def test_three(rabbitmq_url): pass
def test_four(): pass
@pytest.mark.skip(reason="for another reason")
def test_five(): pass
def test_six(request): request.getfixturevalue("redis_url")
"""


@pytest.fixture
def lonely(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A test suite that uses our fixtures on a machine where no server is found."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.delenv("STRICT", raising=False)
    pytester.makeini("[pytest]\naddopts = --strict-markers\nmarkers =\n  postgres\n  redis\n  rabbitmq\n")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    return pytester


def test_tests_without_a_server_are_skipped_and_counted_loudly(lonely: pytest.Pytester) -> None:
    result = lonely.runpytest_subprocess()
    result.assert_outcomes(passed=1, skipped=5)
    result.stdout.fnmatch_lines(
        [
            "*!!! MISSING SERVERS !!!*",
            "PostgreSQL: 2 test(s) skipped, the finder of this test finds nothing",
            "Redis: 1 test(s) skipped, *",
            "RabbitMQ: 1 test(s) skipped, *",
            "get them: apt-get install --no-install-recommends postgresql redis-server rabbitmq-server*",
        ]
    )
    assert result.ret == pytest.ExitCode.OK


def test_tests_without_a_server_fail_under_strict(
    lonely: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRICT", "1")
    result = lonely.runpytest_subprocess()
    result.assert_outcomes(passed=1, skipped=1, errors=3, failed=1)
    result.stdout.fnmatch_lines(["*no PostgreSQL server: *STRICT=1 forbids to skip*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


PARTS = """
from tests.services.missing_servers import leave_out
from tests.support.thoroughness import LEFT_OUT

def test_a_part(record_property): record_property(LEFT_OUT, "seeds: 3 of 20")
def test_impossible(): leave_out("no namespaces here")
"""


def test_what_a_test_leaves_out_is_named_and_strict_refuses_what_is_impossible(
    lonely: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    lonely.makepyfile(PARTS)
    result = lonely.runpytest_subprocess()
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*!!! LEFT OUT !!!*", "seeds: 3 of 20"])
    monkeypatch.setenv("STRICT", "1")
    result = lonely.runpytest_subprocess("-k", "test_impossible")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["*no namespaces here (STRICT=1 forbids to skip)*"])


def test_tests_are_marked_with_the_servers_that_they_use(lonely: pytest.Pytester) -> None:
    result = lonely.runpytest_subprocess("-m", "not postgres")
    result.assert_outcomes(passed=1, skipped=3, deselected=2)


@pytest.mark.parametrize(("strict", "status"), [("1", 1), ("0", 0), ("", 0)])
def test_the_check_names_each_missing_server_and_fails_only_under_strict(
    strict: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STRICT", strict)
    monkeypatch.setattr(installation, "find", lambda service: Missing(service, "it is not here"))
    assert command.main(["--check"]) == status
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(installation.SERVICES)
    assert all("MISSING" in line and "it is not here" in line for line in lines)
    from_debian = [service for service in installation.SERVICES.values() if service.package]
    assert sum("apt-get" in line for line in lines) == len(from_debian) > 0


def test_installing_where_it_is_not_possible_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("STRICT", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(installation, "find", lambda service: Missing(service, "it is not here"))
    with pytest.raises(InstallRefused, match="no apt-get"):
        installation.install(["redis"])
    assert command.main(["--install"]) == 0
    assert "could not be installed" in capsys.readouterr().err


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_highest_version_is_found_first_and_then_what_is_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "9" / "bin", "serve")
    newest = program(tmp_path / "16" / "bin", "serve")
    on_path = program(tmp_path / "path", "name-server")
    service = installation.Service("A", "a", ("serve", "name-server"), (f"{tmp_path}/*/bin",))
    monkeypatch.setattr(installation, "SERVICES", {"a": service})
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert installation.find("a") == Found("a", {"serve": newest, "name-server": on_path})

    on_path.chmod(0o644)
    missing = installation.find("a")
    assert isinstance(missing, Missing)
    assert missing.why.startswith("name-server not found in ")


@pytest.mark.parametrize("before", [None, "#!/bin/sh\nexit 0\n"])
def test_the_policy_against_starting_services_is_put_back_as_it_was(
    before: str | None, tmp_path: Path
) -> None:
    policy = tmp_path / "policy-rc.d"
    if before:
        policy.write_text(before)
    with pytest.raises(KeyboardInterrupt), services_kept_stopped(policy):
        assert policy.stat().st_mode & stat.S_IXUSR
        assert policy.read_text().endswith("exit 101\n")
        raise KeyboardInterrupt
    assert (policy.read_text() if policy.exists() else None) == before
    assert [path.name for path in tmp_path.iterdir()] == ([policy.name] if before else [])
