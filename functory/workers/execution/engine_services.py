"""The engine's services behind the host functions (:mod:`functory.workers.execution.host_functions`)."""

from __future__ import annotations

from dataclasses import dataclass

from functory.engine.access.secrets import Secrets
from functory.engine.agents.calls import Calls
from functory.engine.agents.embedding_calls import EmbeddingCalls
from functory.engine.agents.memory import Memory
from functory.engine.agents.models import Models
from functory.engine.database.connection import Database
from functory.engine.events.store import Events
from functory.engine.executions.runs.tool_search import Tools
from functory.engine.executions.store import Executions
from functory.engine.functions.annotations import Annotations
from functory.engine.functions.grant_approvals import GrantApprovals
from functory.engine.functions.registry import Functions
from functory.engine.functions.state import State
from functory.engine.releases.proposals import Proposals
from functory.engine.settings import Settings
from functory.engine.tallies.reader import Tallies


@dataclass(frozen=True)
class Services:
    """The services of one database."""

    events: Events
    executions: Executions
    functions: Functions
    secrets: Secrets
    state: State
    grant_approvals: GrantApprovals
    calls: Calls
    models: Models
    proposals: Proposals
    memory: Memory
    annotations: Annotations
    tools: Tools
    embeddings: EmbeddingCalls

    @classmethod
    def of(cls, database: Database, settings: Settings, functions: Functions) -> Services:
        """Make the services of a database; ``functions`` inspects and resolves what code saves."""
        return cls(
            events=Events(database, settings.max_event_bytes),
            executions=Executions(database, settings),
            functions=functions,
            secrets=Secrets(database, settings),
            state=State(database),
            grant_approvals=GrantApprovals(database, settings),
            calls=Calls(database, settings),
            models=Models(database),
            proposals=Proposals(database, functions),
            memory=Memory(database),
            annotations=Annotations(database),
            tools=Tools(database, Tallies(database)),
            embeddings=EmbeddingCalls(database, settings),
        )
