"""Functions and their versions, the packages that they need, what they may do and what they keep."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Table, UniqueConstraint, text

from functory.engine.database.schema.column_types import Id, Instant, Json, State, Words
from functory.engine.database.schema.metadata import metadata

function = Table(
    "function",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", sa.String(200), nullable=False, unique=True),
    Column("state", State(("enabled", "disabled", "deleted")), nullable=False),
    Column("active", sa.Integer),  # number of the active version; none before the first activation
    Column("latest", sa.Integer, nullable=False),
    # Who sees it is decided by its labels (functory.engine.access.scopes).
    Column("labels", Json, nullable=False, server_default=sa.text("'[]'")),
    # Which log lines are kept (functory.engine.functions.log_policies).
    Column("log_policy", sa.String(32), nullable=False, server_default="full"),
    # Of an ephemeral one: the run for which it exists (functory.engine.releases.proposals).
    Column("run_id", Id),
    # The canary that shares its executions with the active version (functory.engine.functions.open_canaries).
    Column("canary_id", Id),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)

function_version = Table(
    "function_version",
    metadata,
    Column("id", Id, primary_key=True),
    Column("function_id", Id, ForeignKey("function.id"), nullable=False),
    Column("number", sa.Integer, nullable=False),
    Column("source", Words, nullable=False),
    Column("source_sha256", sa.String(64), nullable=False),
    Column(
        "sha256", sa.String(64), nullable=False
    ),  # of everything below and the source: equal content, equal hash
    Column("is_async", sa.Boolean, nullable=False),
    Column("parameters", Json, nullable=False),
    Column("input_schema", Json),
    Column("output_schema", Json),
    Column("declared", Json, nullable=False),  # which schemas the author declared himself
    Column("imports", Json, nullable=False),
    Column("dependencies", Json, nullable=False),
    Column("secrets", Json, nullable=False),
    Column("permissions", Json, nullable=False),
    Column("metadata", Json, nullable=False),
    Column("output_patterns", Json, nullable=False),
    Column("limits", Json, nullable=False),
    Column("warnings", Json, nullable=False),
    # Packages beyond its imports, requested grants, and whether its runner stays warm.
    Column("requirements", Json, nullable=False, server_default=sa.text("'[]'")),
    Column("grants", Json, nullable=False, server_default=sa.text("'{}'")),
    Column("reuse", sa.Boolean, nullable=False, server_default=sa.false()),
    # The function (name or name@number) that compensates a success of this one.
    Column("compensate", sa.String(220)),
    # Static findings; advice, not part of the content.
    Column("findings", Json, nullable=False, server_default=sa.text("'[]'")),
    # Key in table environment; none for the standard library alone. The error explains why a needed one is missing.
    Column("environment", sa.String(64)),
    Column("environment_error", Words),
    Column("author", Words, nullable=False),
    Column("cause_execution_id", Id),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("function_id", "number"),
)

# Texts of modules, each stored once for all versions that import it.
module = Table(
    "module",
    metadata,
    Column("sha256", sa.String(64), primary_key=True),
    Column("source", Words, nullable=False),
)

# The modules of one's own that a version imports, by dotted name; shop.__init__ is the package shop.
version_module = Table(
    "version_module",
    metadata,
    Column("version_id", Id, ForeignKey("function_version.id"), primary_key=True),
    Column("name", sa.String(200), primary_key=True),
    Column("sha256", sa.String(64), ForeignKey("module.sha256"), nullable=False),
)

# Which version was active, from when to when. One row for each change, which is never pruned; the open one is current.
ACTIVATION_REASONS = ("save", "activate", "promote", "rollback", "force")
activation = Table(
    "activation",
    metadata,
    Column("id", Id, primary_key=True),
    Column("function_id", Id, ForeignKey("function.id"), nullable=False),
    Column("function", sa.String(200), nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("previous", sa.Integer),  # the version that was active before
    Column("reason", State(ACTIVATION_REASONS), nullable=False),
    Column("proposal_id", Id),
    Column("author", Words, nullable=False),
    Column("cause_execution_id", Id),
    Column("at", Instant, nullable=False),
    Column("ended_at", Instant),
    Column("ended_by", Words),  # the author of the change that ended it
)
Index(
    "uq_activation_open",
    activation.c.function_id,
    unique=True,
    postgresql_where=text("ended_at IS NULL"),
    sqlite_where=text("ended_at IS NULL"),
)
Index("ix_activation_function_id", activation.c.function_id, activation.c.at)

# What is known about a version from its use. A rollback never goes to a bad one. Never pruned.
version_mark = Table(
    "version_mark",
    metadata,
    Column("function_id", Id, ForeignKey("function.id"), primary_key=True),
    Column("version", sa.Integer, primary_key=True),
    Column("mark", State(("good", "bad")), nullable=False),
    Column("reason", Words, nullable=False),
    Column("by", Words, nullable=False),
    Column("canary_id", Id),
    Column("at", Instant, nullable=False),
)

# Packages, pinned with hashes. The key is the hash of the lock, the Python and the platform it was made for.
environment = Table(
    "environment",
    metadata,
    Column("key", sa.String(64), primary_key=True),
    Column("requirements", Json, nullable=False),  # as they were asked for
    Column("lock", Words, nullable=False),
    Column("python", sa.String(16), nullable=False),  # 3.11
    Column("platform", sa.String(64), nullable=False),  # linux-x86_64
    Column("created_at", Instant, nullable=False),
)

# The environment of each request (requirements, platform, Python): the same request gets the same packages again until
# newer ones are requested.
resolution = Table(
    "resolution",
    metadata,
    Column("request", sa.String(64), primary_key=True),
    Column("environment", sa.String(64), ForeignKey("environment.key"), nullable=False),
    Column("created_at", Instant, nullable=False),
)

# Rights that an operator granted beyond the author's declaration, bound to the content of one version.
grant_approval = Table(
    "grant_approval",
    metadata,
    Column("id", Id, primary_key=True),
    Column("function", sa.String(200), nullable=False),
    Column("sha256", sa.String(64), nullable=False),
    Column("kind", sa.String(16), nullable=False),  # one of functory.engine.access.grants.KINDS
    Column("value", Words, nullable=False),
    Column("author", Words, nullable=False),
    Column("reason", Words, nullable=False),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("function", "sha256", "kind", "value"),
)

secret = Table(
    "secret",
    metadata,
    Column("name", sa.String(200), primary_key=True),
    Column("sealed", sa.LargeBinary, nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)

state = Table(
    "state",
    metadata,
    Column("function", sa.String(200), primary_key=True),
    Column("key", sa.String(255), primary_key=True),
    Column("value", Json(null=True), nullable=False),
    Column("version", sa.Integer, nullable=False),
    Column("updated_at", Instant, nullable=False),
)
