"""Tables of what agents and functions remember, and of what is said about functions besides their versions.

A memory is a text with its origin. Embeddings of memories and of functions are vectors; a model's vectors are compared
with its own alone.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, Index, Table

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata, partial

MEMORY_SCOPES = ("run", "agent", "shared")
MEMORY_KINDS = ("fact", "episode", "lesson")

memory = Table(
    "memory",
    metadata,
    Column("id", Id, primary_key=True),
    Column("scope", State(MEMORY_SCOPES), nullable=False),
    # The id of the run, or the name of the agent; empty for shared.
    Column("owner", sa.String(200), nullable=False),
    Column("kind", State(MEMORY_KINDS), nullable=False),
    Column("text", Words, nullable=False),
    Column("text_sha256", sa.String(64), nullable=False),
    Column("importance", sa.Float, nullable=False),  # 0 to 1
    # The first execution that wrote it, and the run that it worked for; NULL for what a person wrote.
    Column("source_execution_id", Id),
    Column("run_id", Id),
    Column("author", Words, nullable=False),
    # It came from code that may read from outside (functory.engine.agents.memory).
    Column("untrusted", sa.Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
)
# The same text is stored once.
Index("uq_memory_text", memory.c.scope, memory.c.owner, memory.c.text_sha256, unique=True)
Index("ix_memory_owner", memory.c.scope, memory.c.owner, memory.c.id)
partial("ix_memory_source", memory, [memory.c.source_execution_id], "source_execution_id IS NOT NULL")
partial("ix_memory_run_id", memory, [memory.c.run_id], "run_id IS NOT NULL")
partial("ix_memory_expires_at", memory, [memory.c.expires_at], "expires_at IS NOT NULL")

EMBEDDING_KINDS = ("function", "memory")

embedding = Table(
    "embedding",
    metadata,
    Column("kind", State(EMBEDDING_KINDS), primary_key=True),
    Column("owner_id", Id, primary_key=True),  # of the memory, or of the function
    Column("model", sa.String(200), primary_key=True),
    Column("text_sha256", sa.String(64), nullable=False),  # of the text that it belongs to
    # The call that makes the vector; NULL when it has one.
    Column("call_id", Id),
    Column("dim", sa.Integer),
    Column("vector", sa.LargeBinary),  # float32, little endian
)
partial("ix_embedding_call_id", embedding, [embedding.c.call_id], "call_id IS NOT NULL")

# What is known about a function besides its versions: it changes without a new one.
annotation = Table(
    "annotation",
    metadata,
    Column("function", sa.String(200), primary_key=True),
    Column("key", sa.String(64), primary_key=True),
    Column("value", Json, nullable=False),
    Column("author", Words, nullable=False),
    Column("source_execution_id", Id),
    Column("at", Instant, nullable=False),
)
