"""A cancel of a running parent stops its children in their worker, and leaves the abandoned one alone."""

from functory.client.functory import Functory
from tests.support.waiting import wait_for
from tests.support.world import lines

pytest_plugins = ["tests.support.world"]


def test_a_worker_stops_the_children_of_a_cancelled_parent(engine: Functory) -> None:
    engine.functions.save(lines("def child():", "    import time", "    time.sleep(600)"))
    engine.functions.save(lines("def left(): return 7"))
    engine.functions.save(
        lines(
            "def parent():",
            "    from functory import gather, submit",
            "    submit('left', abandon=True)",
            "    return gather(*[submit('child') for _ in range(2)])",
        )
    )
    parent = engine.submit("parent")

    def states() -> list[tuple[str, str]]:
        return sorted((row["function"], row["state"]) for row in engine.executions.list(parent_id=parent.id))

    wait_for(lambda: states() == [("child", "running")] * 2 + [("left", "succeeded")])
    engine.executions.cancel(parent.id, author="ada")
    wait_for(lambda: states() == [("child", "cancelled")] * 2 + [("left", "succeeded")])
    assert engine.executions.get(parent.id)["error"] == {
        "type": "Cancelled",
        "message": "cancelled by the user ada",
    }
    stopped = engine.executions.list(parent_id=parent.id, state="cancelled")
    assert {row["error"]["message"] for row in stopped} == {f"cancelled by execution {parent.id}"}
