"""The table of tallies: how often something happened in a minute and in an hour.

Only the tallier writes it (:mod:`functory.engine.tallies.tallier`): a row that each execution changed would be the
hottest row of the database.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, Index, Table

from functory.engine.database.schema.column_types import Instant, Json
from functory.engine.database.schema.metadata import metadata

tally = Table(
    "tally",
    metadata,
    Column("kind", sa.String(16), primary_key=True),  # function, trigger, event, source, total
    Column("name", sa.String(255), primary_key=True),
    Column("interval_seconds", sa.Integer, primary_key=True),  # 60 or 3600
    Column("begins_at", Instant, primary_key=True),
    # Of a function; else 0.
    Column("version", sa.Integer, primary_key=True, autoincrement=False),
    # Of a function: how executions ended. Of a trigger: fired, or the reason of a suppression.
    Column("outcome", sa.String(32), primary_key=True),
    Column("count", sa.BigInteger, nullable=False),
    # Histograms (functory.engine.tallies.histogram). Of a function: seconds until executions started, and until they
    # ended after that. Of events: seconds until they were routed.
    Column("queued", Json, nullable=False),
    Column("run", Json, nullable=False),
)
# Old intervals are deleted, and a page of functions reads few intervals of many names.
Index("ix_tally_interval_seconds_begins_at", tally.c.interval_seconds, tally.c.begins_at)
