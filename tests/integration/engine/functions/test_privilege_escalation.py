"""Running code is held to its grants, and comes to no more from inside."""

import pytest
import sqlalchemy as sa

from functory.engine.access.grants import NOTHING, Grants
from functory.engine.database import counters, schema
from functory.engine.errors import FunctoryError, NotFound, Refused
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.workers.execution.denied_requests import MAX_LINES
from tests.support.granted_claims import claimed, host_of, inside
from tests.support.patience import patient

pytest_plugins = ["tests.support.world"]

# What running code is held to.


def test_code_opens_the_secrets_that_it_was_granted_and_no_other(make_world):
    world = make_world(author_grants=[])
    for name in ("API_KEY", "OTHER"):
        world.secrets.set(name, f"value of {name}")
    world.function("work", secrets=["API_KEY"])
    host = host_of(world, claimed(world))
    with pytest.raises(Refused, match="functory grant allow work@1 secret API_KEY"):
        host.secret("API_KEY")
    with pytest.raises(Refused, match="the secret OTHER is not declared"):
        host.secret("OTHER")
    world.grant_approvals.allow("work", 1, "secret", "API_KEY", reason="asked for")
    assert host_of(world, claimed(world)).secret("API_KEY") == "value of API_KEY"


def test_code_uses_the_permissions_that_it_was_granted(make_world):
    world = make_world(author_grants=[])
    world.function("work", permissions=["functions:read"])
    with pytest.raises(Refused, match="functory grant allow work@1 permission functions:read"):
        host_of(world, claimed(world)).functions("list", {})
    world.grant_approvals.allow("work", 1, "permission", "functions:read", reason="asked for")
    host = host_of(world, claimed(world))
    assert [row["name"] for row in host.functions("list", {})] == ["work"]
    with pytest.raises(Refused, match="the permission functions:write is not declared"):
        host.functions("save", {"source": "def other(): ...\n"})


def test_refusals_stand_in_the_log_a_limited_number_of_them(world):
    world.function("work")
    claim = claimed(world)
    host = host_of(world, claim)
    for n in [*range(500), *range(500)]:
        with pytest.raises(Refused):
            host.secret(f"KEY{n}")
    with pytest.raises(Refused):
        host.secret("x" * 100_000)
    world.worker.finish(claim, host.denied_requests.append_to_log(AttemptResult("succeeded")))
    lines = world.rows(schema.log)
    assert len(lines) == MAX_LINES + 1
    assert {(line["stream"], line["level"]) for line in lines} == {("log", "warning")}
    assert lines[0]["text"] == "refused: the secret KEY0 is not declared (work v1 has no grants)"
    assert "more refusals" in lines[-1]["text"]
    assert sum(len(line["text"]) for line in lines) < 600 * (MAX_LINES + 1)
    assert {row["action"] for row in world.rows(schema.audit)} <= {"function.created"}


def test_a_refusal_does_not_tell_the_secret_that_was_asked_for_as_a_name(world):
    world.secrets.set("API_KEY", "hunter2-hunter2")
    world.function("work", secrets=["API_KEY"], permissions=["functions:write"])
    host = host_of(world, claimed(world))
    value = host.secret("API_KEY")
    for n in range(450, 500):
        with pytest.raises(Refused):
            host.secret("x" * n + value)
    with pytest.raises(Refused):
        host.functions("save", {"source": "def x(): ...\n", "hosts": [f"{value}.com"]})
    logged = repr(host.denied_requests.append_to_log(AttemptResult("failed")).logs)
    assert "***" in logged
    assert "hunter2" not in logged


def test_the_log_of_a_run_says_what_its_functions_wait_for(served):
    served.function("parse", files={"read": ["/data/in"]}, hosts=["a.example.com"])
    served.function("work", dependencies=["parse"], subprocess=True)
    claim = claimed(served)
    ending = host_of(served, claim).denied_requests.append_to_log(
        AttemptResult("failed", logs=[{"seq": 4, "text": "own"}])
    )
    assert [(entry["seq"], entry["text"]) for entry in ending.logs[1:]] == [
        (5, 'subprocess waits for an operator: functory grant allow work@1 subprocess --reason "…"'),
        (6, 'read /data/in waits for an operator: functory grant allow parse@1 read /data/in --reason "…"'),
    ]
    served.grant_approvals.allow("work", 1, "subprocess", reason="asked for")
    served.grant_approvals.allow("parse", 1, "read", "/data", reason="asked for")
    assert not claimed(served).grant_warnings


# No more rights from inside.


@pytest.mark.parametrize(
    "declared",
    [
        {"secrets": ["API_KEY"]},
        {"key_dependencies": ["API_KEY"]},
        {"hosts": ["api.example.com"]},
        {"hosts": ["*"]},
        {"files": {"read": ["/data/other"]}},
        {"files": {"write": ["/data/in"]}},
        {"subprocess": True},
    ],
    ids=str,
)
def test_code_cannot_declare_more_than_it_has(world, declared):
    host = inside(world, hosts=["*.example.org"], files={"read": ["/data/in"]})
    before = world.types()
    with pytest.raises(Refused, match="more rights than it has itself") as caught:
        host.functions("save", {"source": "def thief(): ...\n", **declared})
    assert "thief v1 would have" in caught.value.why
    with pytest.raises(Refused):
        host.functions("save", {"source": "def thief(): ...\n", "activate": False, **declared})
    with pytest.raises(Refused):
        host.functions("update", {"name": "maker", "changes": declared})
    with pytest.raises(NotFound):
        world.functions.get("thief")
    assert world.functions.get("maker")["latest"] == 1
    assert world.types() == before


def test_code_passes_on_what_it_has(world):
    world.secrets.set("API_KEY", "hunter2")
    host = inside(
        world, secrets=["API_KEY"], hosts=["*.example.com"], files={"read": ["/data"]}, subprocess=True
    )
    declared = {
        "secrets": ["API_KEY"],
        "permissions": ["functions:write"],
        "hosts": ["api.example.com", "*.eu.example.com"],
        "files": {"read": ["/data/in"]},
        "subprocess": True,
    }
    row = host.functions("save", {"source": "def child(): ...\n", **declared})
    assert (row["secrets"], row["number"]) == (["API_KEY"], 1)
    assert host.functions("update", {"name": "child", "changes": {"metadata": {"n": 1}}})["number"] == 2
    assert host.functions("activate", {"name": "child", "version": 1})["active"] == 1


def test_what_only_waits_cannot_be_passed_on(served):
    host = inside(served, subprocess=True)
    with pytest.raises(Refused, match="more rights"):
        host.functions("save", {"source": "def thief(): ...\n", "subprocess": True})
    served.grant_approvals.allow("maker", None, "subprocess", reason="asked for")
    host = host_of(served, claimed(served, "maker"))
    row = host.functions("save", {"source": "def child(): ...\n", "subprocess": True})
    assert row["warnings"] == [
        'subprocess waits for an operator: functory grant allow child@1 subprocess --reason "…"'
    ]


def test_code_may_save_what_imports_packages_and_none_of_them_is_imported_ahead(world):
    host = inside(world)
    row = host.functions("save", {"source": "def child(): ...\n", "imports": ["numpy"]})
    assert (row["number"], row["warnings"]) == (1, [])
    assert claimed(world, "child").grants == NOTHING
    world.grant_approvals.allow("child", 1, "preload", "numpy", reason="it takes a second")
    assert claimed(world, "child").grants == Grants(preload=("numpy",))
    # Its version stays one that code may change.
    assert host.functions("update", {"name": "child", "changes": {"metadata": {"n": 1}}})["number"] == 2
    assert host.functions("activate", {"name": "child", "version": 1})["active"] == 1


def test_code_cannot_change_the_source_of_what_has_more(world):
    world.function("vault", secrets=["API_KEY"])
    host = inside(world)
    with pytest.raises(Refused, match="vault v2 would have secret API_KEY"):
        host.functions(
            "update", {"name": "vault", "changes": {"source": "def vault(): return secret('API_KEY')\n"}}
        )
    assert world.functions.get("vault")["latest"] == 1


def test_code_cannot_activate_or_roll_back_to_what_has_more(world):
    world.function("work", hosts=["a.example.com"])
    world.function("work")
    host = inside(world)
    for op, arguments in (("activate", {"version": 1}), ("rollback", {})):
        with pytest.raises(Refused, match=r"work v1 would have host a\.example\.com"):
            host.functions(op, {"name": "work", **arguments})
    assert world.functions.get("work")["number"] == 2
    world.functions.activate("work", 1)
    assert world.functions.get("work")["number"] == 1, "people may"


def test_code_cannot_activate_roll_back_to_or_save_again_what_was_allowed_more(world):
    world.function("work")
    world.grant_approvals.allow("work", 1, "host", "a.example.com", reason="asked for")
    world.function("work", metadata={"n": 1})
    host = inside(world)
    again = {"source": world.functions.get("work", 1)["source"]}
    for op, arguments in (
        ("activate", {"name": "work", "version": 1}),
        ("rollback", {"name": "work"}),
        ("save", again),
        ("update", {"name": "work", "changes": {"metadata": {}}}),
    ):
        with pytest.raises(Refused, match=r"would have host a\.example\.com"):
            host.functions(op, dict(arguments))
    assert world.functions.get("work")["latest"] == 2


def test_code_cannot_link_itself_with_what_has_more(world):
    world.function("vault", secrets=["API_KEY"])
    world.function("between", dependencies=["vault"])
    host = inside(world)
    for needed in ("vault", "vault@1", "between"):
        with pytest.raises(Refused, match="linked with vault v1, would have secret API_KEY"):
            host.functions("save", {"source": "def thief(): ...\n", "dependencies": [needed]})
    with pytest.raises(NotFound):
        world.functions.get("thief")


@pytest.mark.parametrize("needed", ["parse", "parse@2", "middle"])
def test_code_cannot_change_what_is_linked_into_more(world, needed):
    world.function("parse")
    world.function("middle", dependencies=["parse"])
    world.function("vault", secrets=["API_KEY"], dependencies=[needed])
    host = inside(world)
    with pytest.raises(Refused, match="linked with vault v1, would have secret API_KEY"):
        host.functions("update", {"name": "parse", "changes": {"source": "def parse(): return 'stolen'\n"}})
    assert world.functions.get("parse")["latest"] == 1


def test_code_cannot_make_the_missing_dependency_of_what_has_more(world):
    world.function("lock", secrets=["API_KEY"])
    world.function("vault", dependencies=["helper", "lock"])
    host = inside(world)
    with pytest.raises(Refused, match="helper v1, linked with lock v1, would have secret API_KEY"):
        host.functions("save", {"source": "def helper(): ...\n"})


def test_code_may_change_what_is_linked_into_no_more_than_it_has(world):
    world.function("parse")
    world.function("vault", secrets=["API_KEY"], dependencies=["parse@1"])
    world.function("load", hosts=["a.example.com"], dependencies=["parse"])
    host = inside(world, hosts=["*.example.com"])
    row = host.functions("update", {"name": "parse", "changes": {"metadata": {"n": 1}}})
    assert (row["number"], row["active"]) == (2, 2)
    draft = host.functions(
        "save", {"source": "def load(): ...\n", "hosts": ["a.example.com"], "activate": False}
    )
    assert (draft["number"], draft["active"]) == (2, 1)


def test_a_cause_without_an_attempt_on_record_has_nothing(world):
    world.function("maker", hosts=["a.example.com"])
    claim = claimed(world, "maker")
    with world.database.write() as tx:
        tx.execute(sa.update(schema.attempt).values(sandbox=None))
    with pytest.raises(Refused, match="more rights"):
        world.functions.save("def child(): ...\n", hosts=["a.example.com"], cause=claim.cause)
    assert world.functions.save("def child(): ...\n", cause=claim.cause)["created"]


def test_hostile_arguments_of_code_change_nothing(world):
    host = inside(world)
    before = world.types("function.")
    for op, arguments in [
        ("save", {"source": "def x(): ...\n", "cause": None, "hosts": ["a.example.com"]}),
        ("save", {"source": "def x(): ...\n", "author": "ada"}),
        ("save", {"source": "def x(): ...\n", "hosts": "a.example.com"}),
        ("save", {"source": "def x(): ...\n", "hosts": [f"h{n}.example.com" for n in range(5000)]}),
        ("save", {"source": "def x(): ...\n", "files": {"read": ["/data/../etc"]}}),
        ("save", {"source": "def x(): ...\n", "files": {"read": ["/\x00"]}}),
        ("save", {"source": "def x(): ...\n", "grants": {"hosts": ["*"]}}),
        ("save", {"source": "def x(): ...\n", "grants.hosts": ["*"]}),
        ("save", {"source": "def x(): ...\n", "sha256": "0" * 64}),
        ("update", {"name": "maker", "changes": {"cause": None, "subprocess": True}}),
        ("update", {"name": "maker", "changes": {"grants.subprocess": True}}),
        ("update", {"name": 5, "changes": {}}),
        ("grant", {"name": "maker"}),
    ]:
        with pytest.raises(FunctoryError):
            host.functions(op, dict(arguments))
    assert world.types("function.") == before


def test_the_counter_is_raised_by_each_change_of_grants(world):
    world.function("work")

    def value() -> int:
        with world.database.read() as tx:
            return counters.read(tx, counters.GRANTS)

    seen = [value()]
    world.grant_approvals.allow("work", 1, "host", "a.example.com", reason="asked for")
    seen.append(value())
    world.grant_approvals.revoke("work", 1, "host", "a.example.com")
    seen.append(value())
    assert len(set(seen)) == 3


def test_code_that_runs_for_real_gets_no_further(engine):
    engine.functions.save("def vault(): return 1\n", secrets=["API_KEY"])
    source = """
from functory import functions, secret

def maker():
    said = []
    for attempt in (
        lambda: secret("API_KEY"),
        lambda: functions.save("def thief(): ...", subprocess=True),
        lambda: functions.save("def thief(): ...", dependencies=["vault"]),
        lambda: functions.update("vault", source="def vault(): return 2"),
    ):
        try:
            attempt()
            said.append("done")
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}".splitlines()[0])
    return said + [functions.save("def child(): ...")["number"]]
"""
    engine.functions.save(source, permissions=["functions:write"])
    row = engine.run("maker", {}, timeout=patient(60))
    assert row["result"] == [
        "Refused: the secret API_KEY is not declared",
        "Refused: maker may not give thief v1 more rights than it has itself",
        "Refused: maker may not give thief v1 more rights than it has itself",
        "Refused: maker may not give vault v2 more rights than it has itself",
        1,
    ]
    assert [row["name"] for row in engine.functions.list()] == ["child", "maker", "vault"]
