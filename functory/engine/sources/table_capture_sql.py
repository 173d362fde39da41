"""The SQL of table capture: the function that emits the event of a row, in the user's own transaction.

It runs with the rights of its owner (``SECURITY DEFINER``), so that roles which may write the user's table need no
right on ours. Its ``search_path`` is pinned, and no other role may execute it. It calls nothing that the owner of the
table has defined: a column of a user-defined type is read with the type's output function, because a cast to ``json``
could be any code. The driver's quoting puts names and texts into it.

It reads the columns anew at each row, so that columns may be added, dropped and renamed without a new installation.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, LiteralString

from functory.engine.database.notifications import CHANNEL

if TYPE_CHECKING:
    from psycopg import sql

# The first number that PostgreSQL gives to what users define (FirstNormalObjectId, access/transam.h).
_FIRST_USER_OID = 16384
# Deeper values are shown as text: ``functory.engine.serialization.json_codec`` might not read them.
_MAX_DEPTH = 200


def function(name: sql.Identifier, body: str) -> sql.Composed:
    """Return the statement that creates the function."""
    from psycopg import sql

    return sql.SQL(_FUNCTION).format(function=name, body=sql.Literal(body))


def body(
    *,
    schema: str,
    source: str,
    table: str,
    key: Sequence[str],
    columns: Sequence[str] | None,
    hidden: Sequence[str],
    max_bytes: int,
    wake: bool,
    route_after: datetime | None,
) -> sql.Composed:
    """Return the function's body. ``schema`` is that of our tables, ``source`` and ``table`` are the names in events.
    No router takes the events before ``route_after``.
    """
    from psycopg import sql

    if columns is not None:
        chosen = sql.SQL("c.key = ANY ({}::text[])").format(sql.Literal(list(columns)))
    else:
        chosen = sql.SQL("c.key <> ALL ({}::text[])").format(sql.Literal(list(hidden)))
    deepest = sql.Literal(_MAX_DEPTH)
    value = sql.SQL(_VALUE).format(deepest=deepest)

    def members(row: LiteralString, into: LiteralString) -> sql.Composed:
        return sql.SQL(_MEMBERS).format(
            row=sql.SQL(row),
            members=sql.SQL(into),
            all=sql.Literal(columns is None and not hidden),
            deepest=deepest,
            value=value,
            chosen=chosen,
        )

    return sql.SQL(_BODY).format(
        event=sql.Identifier(schema, "event"),
        routing_queue=sql.Identifier(schema, "routing_queue"),
        source=sql.Literal(source),
        table=sql.Literal(table),
        chosen=chosen,
        value=value,
        clean_old=sql.SQL(_CLEAN).format(row=sql.SQL("old_row")),
        clean_new=sql.SQL(_CLEAN).format(row=sql.SQL("new_row")),
        old_members=members("old_row", "old_data"),
        new_members=members("new_row", "new_data"),
        key=sql.Literal(list(key)),
        users=sql.Literal(_FIRST_USER_OID),
        max_bytes=sql.Literal(max_bytes),
        wake=sql.Literal(wake),
        # Migrations look for the text without a wait (migrations/event_queues.py).
        waits=sql.SQL("" if route_after is None else ", route_after"),
        until=sql.SQL("")
        if route_after is None
        else sql.SQL(", {}::timestamptz").format(sql.Literal(route_after.isoformat())),
        channel=sql.Literal(CHANNEL),
    )


_FUNCTION: LiteralString = """
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET timezone = 'UTC'
SET bytea_output = 'hex' SET extra_float_digits = 1 SET intervalstyle = 'iso_8601' AS {body}
"""

# One column as JSON text. A number stays one when it reads back equal (as an integer or a double), else it is
# text; so is what is nested too deeply or holds numbers that overflow a double.
_VALUE: LiteralString = r"""
CASE json_typeof(c.value)
WHEN 'number' THEN CASE
  WHEN c.value::text ~ '^-?[0-9]{{1,19}}$' OR c.value::text ~ '^-?[0-9]{{1,8}}[.][0-9]{{1,7}}$'
    OR c.value::text ~ '^-?[0-9]([.][0-9]{{1,16}})?e[+-][0-2]?[0-9]{{2}}$' THEN c.value::text
  WHEN c.value::text !~ '^-?[0-9]{{1,200}}([.][0-9]{{1,200}})?$' THEN to_json(c.value::text)::text
  WHEN c.value::text::numeric::float8::text::numeric = c.value::text::numeric THEN c.value::text
  ELSE to_json(c.value::text)::text END
WHEN 'string' THEN c.value::text WHEN 'boolean' THEN c.value::text WHEN 'null' THEN 'null'
ELSE CASE
  WHEN c.value::text ~ '[:,[][[:space:]]*-?([0-9.]{{250}}|[0-9.]+[eE][+-]?[0-9]{{3}})' THEN to_json(c.value::text)::text
  WHEN length(c.value::text) - length(translate(c.value::text, '[{{', '')) <= {deepest} THEN c.value::text
  WHEN jsonb_path_exists(c.value::text::jsonb, '$.**{{{deepest}}}') THEN to_json(c.value::text)::text
  ELSE c.value::text END
END
"""

# A row's JSON without characters that PostgreSQL's JSON functions reject: NUL and lone surrogates in columns of type
# json become U+FFFD. The trigger must not fail where the user's own statement does not.
_CLEAN: LiteralString = r"""
  IF strpos({row}::text, '\u') > 0 THEN
    {row} := regexp_replace(regexp_replace(replace({row}::text, '\u0000', '\ufffd'),
      '\\u[dD][89abAB][0-9a-fA-F]{{2}}(?!\\u[dD][c-fC-F])', '\\ufffd', 'g'),
      '(?<!\\u[dD][89abAB][0-9a-fA-F]{{2}})\\u[dD][c-fC-F][0-9a-fA-F]{{2}}', '\\ufffd', 'g');
  END IF;
"""

# The members of a row. Most rows are taken as they are; the slow way is for chosen columns and for unsafe values.
_MEMBERS: LiteralString = r"""
  IF {row} IS NOT NULL THEN
    IF {all} AND {row}::text !~ '[:,[][[:space:]]*-?([0-9.]{{16}}|[0-9.]+[eE][+-]?[0-9]{{3}})'
        AND length({row}::text) - length(translate({row}::text, '[{{', '')) <= {deepest} THEN
      {members} := {row}::text;
    ELSE
      SELECT '{{' || coalesce(string_agg(to_json(c.key)::text || ':' || {value}, ',' ORDER BY c.place), '') || '}}'
        INTO {members} FROM json_each({row}) WITH ORDINALITY AS c(key, value, place) WHERE {chosen};
    END IF;
  END IF;
"""

_BODY: LiteralString = r"""
DECLARE
  old_row json; new_row json; old_data text; new_data text; data text; key text; subject text; changed text;
  columns text; id uuid; micros bigint; written_at timestamptz := clock_timestamp();
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW OPERATOR(pg_catalog.*=) OLD THEN RETURN NULL; END IF;
  END IF;
  -- Columns of types that users have defined are read with the type's output function.
  SELECT string_agg(format(CASE WHEN t.oid IS NULL THEN '%1$L, to_json(($1).%2$I)'
      ELSE '%1$L, format(''%%s'', ($1).%2$I)' END, a.attname, a.attname), ', ' ORDER BY a.attnum)
    INTO columns
    FROM pg_attribute a LEFT JOIN pg_type t ON t.oid = a.atttypid AND t.oid >= {users}
      AND t.typtype <> 'e' AND NOT (t.typtype = 'd' AND t.typbasetype < {users})
    WHERE a.attrelid = TG_RELID AND a.attnum > 0 AND NOT a.attisdropped
    HAVING count(t.oid) > 0;
  IF columns IS NULL THEN
    IF TG_OP <> 'INSERT' THEN old_row := row_to_json(OLD); END IF;
    IF TG_OP <> 'DELETE' THEN new_row := row_to_json(NEW); END IF;
  ELSE
    columns := 'SELECT json_build_object(' || columns || ')';
    IF TG_OP <> 'INSERT' THEN EXECUTE columns INTO old_row USING OLD; END IF;
    IF TG_OP <> 'DELETE' THEN EXECUTE columns INTO new_row USING NEW; END IF;
  END IF;
{clean_old}{clean_new}
  IF TG_OP = 'UPDATE' THEN
    SELECT '[' || string_agg(to_json(c.key)::text, ',' ORDER BY c.place) || ']' INTO changed
      FROM json_each(new_row) WITH ORDINALITY AS c(key, value, place)
      JOIN json_each(old_row) AS o(key, value) ON o.key = c.key
      WHERE c.value::text <> o.value::text AND {chosen};
    IF changed IS NULL THEN RETURN NULL; END IF;
  END IF;
  SELECT '{{' || string_agg(to_json(k.name)::text || ':' || coalesce(CASE WHEN length(c.value::text) > 1000
        THEN to_json(left(c.value::text, 1000))::text ELSE {value} END, 'null'), ',' ORDER BY k.place) || '}}',
      left({table} || '/' || string_agg(coalesce(CASE WHEN json_typeof(c.value) = 'string' THEN c.value #>> '{{}}'
        ELSE c.value::text END, 'null'), ',' ORDER BY k.place), 1024)
    INTO key, subject
    FROM unnest({key}::text[]) WITH ORDINALITY AS k(name, place),
      LATERAL (SELECT coalesce(new_row, old_row) -> k.name) AS c(value);
{old_members}{new_members}
  data := '{{"table":' || to_json({table}::text)::text || ',"key":' || key;
  IF changed IS NOT NULL THEN data := data || ',"changed":' || changed; END IF;
  IF octet_length(data) + coalesce(octet_length(old_data), 0) + coalesce(octet_length(new_data), 0) + 40
      > {max_bytes} THEN
    data := data || ',"note":"the values are larger than max_bytes and were left out"';
  ELSE
    IF new_data IS NOT NULL THEN data := data || ',"new":' || new_data; END IF;
    IF old_data IS NOT NULL THEN data := data || ',"old":' || old_data; END IF;
  END IF;
  -- A UUIDv7 (RFC 9562 section 5.7, method 3): milliseconds, then the microseconds in 12 bits, then chance.
  micros := (extract(epoch FROM written_at) * 1000000)::bigint;
  id := (lpad(to_hex(micros / 1000), 12, '0') || '7' || lpad(to_hex((micros % 1000) * 4096 / 1000), 3, '0')
    || substr(replace(gen_random_uuid()::text, '-', ''), 17))::uuid;
  INSERT INTO {event} (id, type, source, subject, time, data, root_id, depth, chain, state, route_attempts)
    VALUES (id, CASE TG_OP WHEN 'INSERT' THEN 'row.inserted' WHEN 'UPDATE' THEN 'row.updated' ELSE 'row.deleted' END,
      {source}, subject, written_at, data || '}}', id, 0, '[]', 'pending', 0);
  INSERT INTO {routing_queue} (event_id{waits}) VALUES (id{until});
  IF {wake} THEN PERFORM pg_notify({channel}, 'events'); END IF;
  RETURN NULL;
END
"""
