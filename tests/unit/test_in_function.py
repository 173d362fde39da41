"""The names that code of functions imports, in a process that is no execution."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import functory
from functory import in_function
from functory.engine.functions import state as engine_state
from functory.workers.sandbox.guest import functory_module
from functory.workers.sandbox.protocol.job import Job
from tests.support.patience import patient


def module_of_an_execution() -> ModuleType:
    """The module `functory` as code of an execution has it."""
    job = Job(execution_id="e1", function="f", version=1, root_id="e1", entry="f", codes={})
    return functory_module.make_module(job, functory_module.InspectionEngineClient(None, job))  # type: ignore[arg-type]


NAMES = sorted(name for name in vars(module_of_an_execution()) if not name.startswith("_"))
FUNCTIONS = [name for name in NAMES if inspect.isfunction(vars(module_of_an_execution())[name])]


@pytest.fixture(autouse=True)
def _no_state_of_others() -> Iterator[None]:
    in_function._client.forget_state()
    yield
    in_function._client.forget_state()


def test_every_name_of_an_execution_can_be_imported_outside_and_opens_no_engine(tmp_path: Path) -> None:
    program = (
        f"from functory import {', '.join(NAMES)}\n"
        "import sys\n"
        "heavy = ('sqlalchemy', 'celery', 'pydantic', 'functory.client.functory')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=patient(60)
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_takes_outside_what_it_takes_inside(name: str) -> None:
    inside = inspect.signature(vars(module_of_an_execution())[name]).parameters
    outside = inspect.signature(getattr(functory, name)).parameters
    taken = {one.name for one in outside.values()}
    named = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in outside.values())
    missing = [
        one.name
        for one in inside.values()
        if one.kind is inspect.Parameter.KEYWORD_ONLY and one.name not in taken and not named
    ]
    assert missing == []


def test_log_and_progress_write_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    functory.log("counted", sku="A1")
    functory.log.warning("low")
    functory.progress(1, 3, "files")
    assert capsys.readouterr().err == "info: counted sku='A1'\nwarning: low\nprogress: 1/3 files\n"


KEYS = st.sampled_from(["a", "b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
STEPS = st.lists(st.tuples(st.sampled_from(["set", "delete", "stale"]), KEYS, VALUES), max_size=8)


@given(steps=STEPS)
def test_state_keeps_values_and_versions_in_this_process(steps: list[tuple[str, str, Any]]) -> None:
    in_function._client.forget_state()
    model: dict[str, tuple[Any, int]] = {}
    for step, key, value in steps:
        version = model.get(key, (None, 0))[1]
        if step == "set":
            assert functory.state.set(key, value, expected_version=version) == version + 1
            model[key] = value, version + 1
        elif step == "delete":
            functory.state.delete(key)
            model.pop(key, None)
        else:
            with pytest.raises(functory.Conflict):
                functory.state.set(key, value, expected_version=version + 1)
        for one in ("a", "b"):
            assert functory.state.read(one) == model.get(one)


def test_a_value_of_state_is_a_copy_as_json_has_it() -> None:
    given = {"seen": ("a", "b")}
    functory.state.set("k", given)
    functory.state.get("k")["seen"].append("c")
    assert functory.state.get("k") == {"seen": ["a", "b"]}
    assert functory.state.get("other", 7) == 7


def test_state_refuses_what_the_engine_refuses() -> None:
    with pytest.raises(functory.NotSerializable, match="value cannot be sent"):
        functory.state.set("k", object())
    with pytest.raises(functory.Invalid, match="too large"):
        functory.state.set("k", "x" * in_function.STATE_BYTES)
    with pytest.raises(functory.Invalid, match="1 to 255 characters"):
        functory.state.get("")
    assert in_function.STATE_BYTES == engine_state.MAX_BYTES


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda: functory.execution.id, "execution"),
        (lambda: functory.secret("API_KEY"), "secret"),
        (lambda: functory.llm("hello"), "llm"),
        (lambda: functory.llm.models(), "llm"),
    ],
)
def test_what_only_an_execution_has_says_so_and_what_a_test_can_do(use: Any, name: str) -> None:
    with pytest.raises(functory.Unavailable) as found:
        use()
    assert found.value.what and found.value.why
    assert f'monkeypatch.setattr(MODULE, "{name}", …)' in found.value.try_


def test_the_errors_of_an_execution_are_those_that_are_raised_outside() -> None:
    assert functory.CallFailed is functory.ExecutionFailed
    assert functory.Submitted is functory.Handle
    assert not hasattr(functory.execution, "__wrapped__")
