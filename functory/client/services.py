"""The services of an engine, or of a client of a deployment: composed, opened, started and closed.

:class:`functory.client.functory.Functory` is this with what programs do with it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from functory.engine import private_files
from functory.engine.access.secrets import Secrets
from functory.engine.database import migrations
from functory.engine.database.connection import Database
from functory.engine.database.schema_check import SchemaCheck
from functory.engine.errors import Conflict
from functory.engine.events.store import Events
from functory.engine.executions.compensation.operator_commands import Compensations
from functory.engine.executions.lineage import Lineage
from functory.engine.executions.store import Executions
from functory.engine.firings.kill_switch import Switches
from functory.engine.firings.suppressions import Suppressions
from functory.engine.firings.trigger_store import Triggers
from functory.engine.functions.grant_approvals import GrantApprovals
from functory.engine.functions.registry import Functions
from functory.engine.functions.state import State
from functory.engine.settings import Settings, load_settings
from functory.engine.telemetry import log_config
from functory.os_user import os_user
from functory.triggers.sources.registry import Registry

if TYPE_CHECKING:
    from functory.client.inspections import Inspections
    from functory.client.trigger_saves import TriggerSaves
    from functory.engine.access.labels import Labels
    from functory.engine.access.logins import Logins
    from functory.engine.access.tokens import Tokens
    from functory.engine.access.users import Users
    from functory.engine.agents.agents import Agents
    from functory.engine.agents.calls import Calls
    from functory.engine.agents.memory import Memory
    from functory.engine.agents.meters import Budgets
    from functory.engine.agents.models import Models
    from functory.engine.executions.batches import Batches
    from functory.engine.executions.runs.reruns import Reruns
    from functory.engine.executions.runs.service import Runs
    from functory.engine.executions.runs.tool_search import Tools
    from functory.engine.firings.backtest_jobs import BacktestJobs
    from functory.engine.firings.trigger_targets import TriggerTargets
    from functory.engine.functions.annotations import Annotations
    from functory.engine.functions.declaration import Signature
    from functory.engine.functions.environments import PackageNeeds, Resolved
    from functory.engine.functions.log_policies import LogPolicies
    from functory.engine.releases.canary_service import Canaries
    from functory.engine.releases.gate_policies import GatePolicies
    from functory.engine.releases.proposals import Proposals
    from functory.engine.tallies.reader import Tallies
    from functory.triggers.trigger_history import TriggerHistory
    from functory.workers.environments import Environments
    from functory.workers.sandbox.runner import Runner
    from functory.workers.sending.client_sender import ClientSender

# From this start on, a process sends its executions itself. A command that starts one has ended before a connection to
# the broker would be open.
STARTS_BEFORE_SENDING = 3


class ClientServices:
    """Each service is an attribute; those that most programs do not need are loaded at the first use."""

    def __init__(self, settings: Settings | None = None, *, author: str = "", create: bool = True) -> None:
        """Open the database of the settings. With ``create`` the embedded mode makes a missing database or schema, else
        it raises :class:`NotFound` or :class:`Conflict`; ``created`` says whether it did.
        """
        # A plain script, or an application with a logging of its own: messages must not mix with what it prints.
        log_config.warn_on_stderr()
        self.settings = settings or load_settings()
        self.author = author or os_user()
        if create and self.settings.database.startswith("sqlite"):
            private_files.make_home(self.settings.home)
        private_files.mend(self.settings)
        self.database = Database.of(self.settings, pool_size=self.settings.worker_slots + 6)
        self.events = Events(self.database, self.settings.max_event_bytes)
        self.executions = Executions(self.database, self.settings)
        self.compensations = Compensations(self.database)
        self.functions = Functions(self.database, self.inspect, self.settings, self._resolve)
        self.grant_approvals = GrantApprovals(self.database, self.settings)
        self.triggers = Triggers(self.database)
        self.sources = Registry(
            self.database, lambda: self.tallies, own_exchange=self.settings.event_exchange
        )
        self.suppressions = Suppressions(self.database)
        self.switches = Switches(self.database)
        self.secrets = Secrets(self.database, self.settings)
        self.state = State(self.database)
        self.lineage = Lineage(self.database)
        self._embedded: Any = None
        self._starts = 0
        self._sender: ClientSender | None = None
        self._inherited: ClientSender | None = None
        self._schema = SchemaCheck(self.database)
        self._lock = threading.Lock()
        self.created = False
        if self.settings.embedded:
            try:
                if not create:
                    migrations.check_exists(self.database)
                self.created = migrations.current(self.database) is None
                migrations.upgrade(self.database)
            except BaseException:
                self.database.close()
                raise
        else:
            self.database.listen_for_wakeups()

    @cached_property
    def batches(self) -> Batches:
        """Actions on many executions. Loaded on first use, like the properties below: most commands need none of them,
        and importing them would cost more than the command's work.
        """
        from functory.engine.executions.batches import Batches

        return Batches(self.database, self.settings)

    @cached_property
    def models(self) -> Models:
        """Language models."""
        from functory.engine.agents.models import Models

        return Models(self.database)

    @cached_property
    def calls(self) -> Calls:
        """Calls of language models."""
        from functory.engine.agents.calls import Calls

        return Calls(self.database, self.settings)

    @cached_property
    def budgets(self) -> Budgets:
        """What may be spent on language models."""
        from functory.engine.agents.meters import Budgets

        return Budgets(self.database, self.settings)

    @cached_property
    def agents(self) -> Agents:
        """Agents."""
        from functory.engine.agents.agents import Agents

        return Agents(self.database)

    @cached_property
    def runs(self) -> Runs:
        """Runs of agents, and the questions that they ask."""
        from functory.engine.executions.runs.service import Runs

        return Runs(self.database, self.settings)

    @cached_property
    def reruns(self) -> Reruns:
        """Repetitions of runs of agents that have ended."""
        from functory.engine.executions.runs.reruns import Reruns

        return Reruns(self.database, self.settings)

    @cached_property
    def proposals(self) -> Proposals:
        """Versions that wait at the gate."""
        from functory.engine.releases.proposals import Proposals

        return Proposals(self.database, self.functions)

    @cached_property
    def gate_policies(self) -> GatePolicies:
        """What proposals must show, and who decides about them."""
        from functory.engine.releases.gate_policies import GatePolicies

        return GatePolicies(self.database)

    @cached_property
    def canaries(self) -> Canaries:
        """Canaries: versions of functions that get a share of the executions."""
        from functory.engine.releases.canary_service import Canaries

        return Canaries(self.database, self.functions)

    @cached_property
    def memory(self) -> Memory:
        """What agents, their runs and functions remember."""
        from functory.engine.agents.embedding_calls import EmbeddingCalls
        from functory.engine.agents.memory import Memory

        return Memory(self.database, EmbeddingCalls(self.database, self.settings).of_query)

    @cached_property
    def annotations(self) -> Annotations:
        """What is said about functions besides their versions."""
        from functory.engine.functions.annotations import Annotations

        return Annotations(self.database)

    @cached_property
    def tools(self) -> Tools:
        """Functions as models see them, found by a goal."""
        from functory.engine.agents.embedding_calls import EmbeddingCalls
        from functory.engine.executions.runs.tool_search import Tools

        embed = EmbeddingCalls(self.database, self.settings).of_query
        return Tools(self.database, self.tallies, embed)

    @cached_property
    def tallies(self) -> Tallies:
        """Numbers of functions and triggers."""
        from functory.engine.tallies.reader import Tallies

        return Tallies(self.database)

    @cached_property
    def labels(self) -> Labels:
        """Labels of functions and triggers."""
        from functory.engine.access.labels import Labels

        return Labels(self.database)

    @cached_property
    def log_policies(self) -> LogPolicies:
        """Which log lines of functions are kept."""
        from functory.engine.functions.log_policies import LogPolicies

        return LogPolicies(self.database)

    @cached_property
    def users(self) -> Users:
        """Users of the HTTP API and of the dashboard."""
        from functory.engine.access.users import Users

        return Users(self.database)

    @cached_property
    def tokens(self) -> Tokens:
        """Tokens that programs send to the HTTP API."""
        from functory.engine.access.tokens import Tokens

        return Tokens(self.database)

    @cached_property
    def logins(self) -> Logins:
        """Open logins of users."""
        from functory.engine.access.logins import Logins

        return Logins(self.database)

    @cached_property
    def trigger_saves(self) -> TriggerSaves:
        """Saves triggers, and checks them against functions."""
        from functory.client.trigger_saves import TriggerSaves

        return TriggerSaves(self.functions, self.triggers, self.events, self.lineage, self.settings)

    @cached_property
    def backtests(self) -> BacktestJobs:
        """Backtests that run in the background."""
        from functory.engine.firings.backtest_jobs import BacktestJobs

        return BacktestJobs(self.database)

    @cached_property
    def trigger_targets(self) -> TriggerTargets:
        """Which triggers run which function."""
        from functory.engine.firings.trigger_targets import TriggerTargets

        return TriggerTargets(self.database)

    @cached_property
    def trigger_history(self) -> TriggerHistory:
        """What triggers decided about past events: backtests, and matches that were suppressed."""
        from functory.triggers.trigger_history import TriggerHistory

        return TriggerHistory(self.database, self.events, self.triggers, self.settings)

    @cached_property
    def inspections(self) -> Inspections:
        """What operators ask about the engine."""
        from functory.client.inspections import Inspections

        return Inspections(self.database, self.settings, self.functions, self.tallies)

    @cached_property
    def runner(self) -> Runner:
        """The child processes of this engine; loaded at the first use, because most commands need none."""
        from functory.workers.sandbox.runner import Runner

        return Runner.from_settings(self.settings)

    @cached_property
    def environments(self) -> Environments:
        """The packages of functions; loaded at the first use as well."""
        from functory.workers.environments import Environments

        return Environments(self.settings, self.database)

    def inspect(
        self,
        source: str,
        name: str,
        *,
        packages: Sequence[str] = (),
        modules: Mapping[str, str] | None = None,
    ) -> Signature:
        """Inspect the signature of a function by executing its source in the sandbox, without any rights."""
        from functory.workers.sandbox.checks.startup import check_tier

        # A client that runs nothing else executes the source here too: never in a weaker sandbox than demanded.
        check_tier(self.settings, self.runner, inspecting=True)
        return self.runner.inspect(source, name, packages=packages, modules=modules)

    def _resolve(self, needs: PackageNeeds, *, renew: bool = False) -> Resolved:
        return self.environments.resolve(needs, renew=renew)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """In embedded mode, run all roles in this process from now on; else check the schema.

        Raises :class:`Conflict` where the database has the workers of a deployment: its work is theirs.
        """
        with self._lock:
            if self._embedded is None and self.settings.embedded:
                from functory.roles.services import EmbeddedRoles

                self._refuse_beside_workers()
                embedded = EmbeddedRoles(self.database, self.settings, self.runner)
                embedded.start()
                self._embedded = embedded
            elif not self.settings.embedded:
                self._schema.check()
        return self

    def _refuse_beside_workers(self) -> None:
        from functory.engine.executions import worker_registry

        alive = worker_registry.alive(self.database, self.settings.lease_seconds)
        workers = [one["id"] for one in alive if not one["id"].startswith(worker_registry.EMBEDDED)]
        if workers:
            raise Conflict(
                "this process would run the work of a deployment itself",
                f"the database has workers of its own ({workers[0]} is one), and no broker is set here",
                "set FUNCTORY_BROKER_URL as the workers have it: amqp://…, redis://… or none://",
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Start this engine after the block. An error that another schema causes becomes :class:`Conflict`."""
        with self._schema.clarify():
            if self._embedded is None and self.settings.embedded:
                self._refuse_beside_workers()
            yield
        self.start()

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """As :meth:`_writing`, for executions: a process that starts several sends them itself."""
        self._starts += 1
        if self._starts > STARTS_BEFORE_SENDING and (self.settings.publishes or self._embedded is not None):
            self._open_sender()
        with self._writing():
            yield

    def _open_sender(self) -> None:
        with self._lock:
            if self._sender is None or self._sender.pid != os.getpid():
                from functory.workers.sending.client_sender import ClientSender

                # A forked child must not close the connection of its parent, so that sender is kept.
                self._inherited = self._sender
                self._sender = self.executions.direct = ClientSender(self.database, self.settings)

    @property
    def health(self) -> dict[str, bool]:
        """Health of each background service by name; empty for a client."""
        return self._embedded.health if self._embedded is not None else {}

    def close(self) -> None:
        """Stop the roles and close the database. Running executions are released; nothing is lost."""
        with self._lock:
            embedded, self._embedded = self._embedded, None
            sender, self._sender, self.executions.direct = self._sender, None, None
        if sender is not None and sender.pid == os.getpid():
            sender.close()
        if embedded is not None:
            embedded.stop()
        if "runner" in self.__dict__:
            self.runner.close()
        self.database.close()
