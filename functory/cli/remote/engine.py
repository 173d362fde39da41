"""The engine of one command, when it is a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never
from uuid import UUID

from functory.cli.remote.access import Labels, Logins, LogPolicies, Tokens, Users
from functory.cli.remote.events import Events
from functory.cli.remote.executions import Compensations, Executions, Lineage
from functory.cli.remote.functions import Annotations, Functions, GrantApprovals, Secrets, State, Tools
from functory.cli.remote.inspections import Inspections, TriggerGraph
from functory.cli.remote.part import here_only, plain
from functory.cli.remote.sources import Schedules, Sources
from functory.cli.remote.triggers import Resumed, Suppressions, Switches, Triggers
from functory.engine import unresolved_ids
from functory.engine.unresolved_ids import Candidate
from functory.remote.client import RemoteFunctory

if TYPE_CHECKING:
    from functory.cli.remote.agents import Agents, Runs
    from functory.cli.remote.backtests import Result
    from functory.cli.remote.batches import Batches
    from functory.cli.remote.canaries import Canaries
    from functory.cli.remote.memories import Memory
    from functory.cli.remote.models import Budgets, Calls, Models
    from functory.cli.remote.proposals import GatePolicies, Proposals
    from functory.cli.remote.read_models import ReadModels


@dataclass(frozen=True)
class RemoteSettings:
    """What commands ask of the settings: the roles run elsewhere, and the server checks sizes."""

    embedded: bool = False
    max_event_bytes: int = 1_048_576


class RemoteEngine:
    """The names that commands use of :class:`functory.client.functory.Functory`."""

    settings = RemoteSettings()
    created = False
    # The server knows it by the token.
    author = ""

    def __init__(self, server: RemoteFunctory) -> None:
        self._server = server
        self.users = Users(server)
        self.tokens = Tokens(server)
        self.logins = Logins(server)
        self.labels = Labels(server)
        self.log_policies = LogPolicies(server)
        self.executions = Executions(server)
        self.lineage = Lineage(server)
        self.inspections = Inspections(server)
        self.compensations = Compensations(server)
        self.events = Events(server)
        self.functions = Functions(server)
        self.annotations = Annotations(server)
        self.tools = Tools(server)
        self.grant_approvals = GrantApprovals(server)
        self.secrets = Secrets(server)
        self.state = State(server)
        self.triggers = Triggers(server)
        self.suppressions = Suppressions(server)
        self.switches = Switches(server)
        self.sources = Sources(server)
        self.schedules = Schedules(server)

    def __enter__(self) -> RemoteEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise here_only(name)

    @property
    def url(self) -> str:
        """The address of the server, where its dashboard is too."""
        return self._server.connection.url

    def start(self) -> RemoteEngine:
        """The roles of a server run already."""
        return self

    @cached_property
    def batches(self) -> Batches:
        """Batches: they load a part of the engine that no other command needs."""
        from functory.cli.remote.batches import Batches

        return Batches(self._server)

    @cached_property
    def models(self) -> Models:
        """Language models. Few commands need them, and so it is with their calls and budgets."""
        from functory.cli.remote.models import Models

        return Models(self._server)

    @cached_property
    def read_models(self) -> ReadModels:
        """Rows as the server sends them, which ``--json`` prints."""
        from functory.cli.remote.read_models import ReadModels

        return ReadModels(self._server)

    @cached_property
    def calls(self) -> Calls:
        """Calls of language models."""
        from functory.cli.remote.models import Calls

        return Calls(self._server)

    @cached_property
    def budgets(self) -> Budgets:
        """What may be spent on language models."""
        from functory.cli.remote.models import Budgets

        return Budgets(self._server)

    @cached_property
    def proposals(self) -> Proposals:
        """Proposals. Few commands need them, and so it is with the policies of the gate."""
        from functory.cli.remote.proposals import Proposals

        return Proposals(self._server)

    @cached_property
    def gate_policies(self) -> GatePolicies:
        """Policies of the gate."""
        from functory.cli.remote.proposals import GatePolicies

        return GatePolicies(self._server)

    @cached_property
    def canaries(self) -> Canaries:
        """Canaries. Few commands need them."""
        from functory.cli.remote.canaries import Canaries

        return Canaries(self._server)

    @cached_property
    def memory(self) -> Memory:
        """What agents and functions remember. Few commands need it."""
        from functory.cli.remote.memories import Memory

        return Memory(self._server)

    @cached_property
    def agents(self) -> Agents:
        """Agents. Few commands need them, and so it is with their runs."""
        from functory.cli.remote.agents import Agents

        return Agents(self._server)

    @cached_property
    def runs(self) -> Runs:
        """Runs of agents, and what they ask people."""
        from functory.cli.remote.agents import Runs

        return Runs(self._server)

    def now(self) -> datetime:
        """The time of the server, by its last answer."""
        return self._server.connection.server_time()

    @cached_property
    def trigger_saves(self) -> _Contracts:
        """What a saved version breaks."""
        return _Contracts()

    def pending(self, version: Mapping[str, Any]) -> list[str]:
        """The grants that a version waits for, each with the command that allows it."""
        reference = f"{version['name']}@{version['number']}"
        return [
            f"{grant} waits for an operator: functory grant allow {reference} {grant}"
            for grant in version.get("pending_grants", ())
        ]

    def save_trigger(
        self,
        name: str | None = None,
        *,
        shadow: bool = False,
        expected_version: int | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Save a trigger."""
        from functory.engine.names import made_trigger_name

        saved = self._server.triggers.save(
            name or made_trigger_name(fields),
            definition=fields,
            shadow=shadow,
            expected_version=expected_version,
        )
        return plain(saved)

    def emit_many(self, events: Iterable[Mapping[str, Any]]) -> list[str]:
        """Write many events."""
        return self._server.emit_many(events)

    def replay_suppressed(self, trigger: str, event_id: str) -> Any:
        """Fire one suppressed match once."""
        from functory.remote.handle import Handle

        done = self._server.suppressions.replay(trigger=trigger, event=event_id)
        return Handle(self._server, done.execution_id)

    def resume_suppressed(
        self,
        *,
        trigger: str | None = None,
        root: str | None = None,
        reasons: Sequence[str] = (),
        dry_run: bool = False,
    ) -> Resumed:
        """Fire suppressed matches, or count them."""
        return self.suppressions.resume(trigger, root, reasons, dry_run=dry_run)

    def trigger_graph(self) -> TriggerGraph:
        """Which trigger may start which."""
        return TriggerGraph.of(self._server.triggers.graph())

    def backtest(
        self,
        name: str,
        draft: Mapping[str, Any] | None = None,
        *,
        since: datetime,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Result:
        """Decide again on the events since ``since``."""
        from functory.cli.remote import backtests

        return backtests.run(self._server, name, draft, since=since, progress=progress)

    @property
    def inspect(self) -> Never:
        """The import of a pack tries its modules in the sandbox of the machine that runs them."""
        raise here_only("the import of packs")

    def workers_alive(self) -> list[dict[str, Any]]:
        """The workers that are alive."""
        return plain(self._server.workers.list())

    def trigger_failure(self, trigger: Mapping[str, Any]) -> dict[str, Any] | None:
        """The last failed match of a trigger. Rows of a list do not have it."""
        row = trigger if "failure" in trigger else self.triggers.get(trigger["name"])
        return row["failure"]

    def explain_event(self, id_: str) -> list[dict[str, Any]]:
        """What each trigger decided about an event."""
        return plain(self._server.events.decisions(id_))

    def find_id(self, text: str, *kinds: str) -> str:
        """The whole id that begins with ``text``. Raises :class:`NotFound`, also when several do."""
        try:
            return str(UUID(text))
        except ValueError:
            pass
        if kinds == ("memory",):
            # The search has no memories: a page of the dashboard would have to show what it finds.
            return self._server.memories.get(text).id
        found = [row for row in self._server.search.list(q=text) if row.kind in kinds]
        if len(found) == 1 and found[0].id is not None:
            return found[0].id
        if not found:
            raise unresolved_ids.no_such(text, kinds)
        raise unresolved_ids.several(
            text,
            [
                Candidate(row.kind, row.id, row.name, row.time)
                for row in found
                if row.id is not None and row.time is not None
            ],
        )


class _Contracts:
    def broken_by(self, version: Mapping[str, Any]) -> list[str]:
        """A warning for each trigger that can no longer work with a version that was just saved."""
        return [
            f"the trigger {one['trigger']} fails from now on: "
            + ": ".join(part for part in (one["what"], one["why"]) if part)
            for one in version.get("contract", ())
            if one["certain"]
        ]
