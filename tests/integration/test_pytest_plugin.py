"""The pytest plug-in, as the tests of users have it: pytest finds it by its entry point, in a folder of theirs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.patience import patient

CODE = """\
from functory import emit, secret, state


def reserve(sku: str, amount: int) -> int:
    left = state.get(sku, 10) - amount
    state.set(sku, left)
    if left < 3:
        emit("stock.low", {"sku": sku})
    return left


def sign() -> int:
    return len(secret("API_KEY"))
"""

TESTS = """\
import functory as package
import pytest
import stock


def test_a_direct_call(functory):
    assert stock.reserve("A1", 8) == 2
    (event,) = functory.events.list(type_="stock.low", payloads=True)
    assert event["data"] == {"sku": "A1"}


def test_nothing_is_left_of_the_test_before(functory):
    assert package.state.get("A1") is None
    assert functory.events.list() == []
    assert package.engine_of_process() is functory


def test_an_execution_by_a_trigger(functory):
    functory.register_function(stock.reserve)
    functory.register_trigger(
        "order", on={"type": ["order.placed"]}, function="reserve", input={"sku": "{{ event.data.sku }}", "amount": 8}
    )
    functory.emit("order.placed", {"sku": "A1"})
    functory.settle()
    assert functory.state.get("reserve", "A1") == (2, 1)
    assert package.state.get("A1") is None
    (event,) = functory.events.list(type_="stock.low", payloads=True)
    assert event["data"] == {"sku": "A1"}


def test_a_secret_is_the_same_in_both(functory):
    functory.secrets.set("API_KEY", "0123456789")
    functory.register_function(stock.sign, secrets=["API_KEY"])
    assert stock.sign() == functory.call("sign") == 10


def test_without_the_fixture_there_is_no_secret():
    with pytest.raises(package.Unavailable):
        stock.sign()
"""

# What a run of pytest has imported at its end.
SEEN = """\
import sys

def pytest_sessionfinish():
    own = ("functory", "functory.pytest_plugin", "functory.in_function", "functory.client.functory")
    names = (*own, "msgspec", "sqlalchemy")
    print("SEEN", [name for name in names if name in sys.modules])
"""


def pytest_in(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a user's folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FUNCTORY_", "PYTEST"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder, env=kept | environment, capture_output=True, text=True, timeout=patient(100),
    )  # fmt: skip


def test_a_test_has_an_engine_of_its_own_and_reaches_no_other(tmp_path: Path) -> None:
    (tmp_path / "stock.py").write_text(CODE)
    (tmp_path / "test_stock.py").write_text(TESTS)
    # Settings of a deployment that no test may reach.
    done = pytest_in(
        tmp_path,
        FUNCTORY_DATABASE_URL="postgresql://127.0.0.1:1/production",
        FUNCTORY_BROKER_URL="amqp://127.0.0.1:1",
        FUNCTORY_URL="http://127.0.0.1:1",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    assert not (tmp_path / ".functory").exists()


def test_pytest_loads_nothing_of_an_engine_for_tests_that_do_not_ask_for_one(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(SEEN)
    (tmp_path / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    done = pytest_in(tmp_path, "-s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SEEN ['functory', 'functory.pytest_plugin']" in done.stdout


def test_a_fixture_of_the_user_with_the_same_name_comes_first(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(
        "import pytest\n\n@pytest.fixture\ndef functory():\n    return 7\n\n"
        "def test_own(functory):\n    assert functory == 7\n"
    )
    assert pytest_in(tmp_path).returncode == 0
