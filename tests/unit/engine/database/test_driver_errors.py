"""The cause of an error of PostgreSQL is read from its code: its text is in the language of the server."""

from __future__ import annotations

import pytest

psycopg = pytest.importorskip("psycopg")
sqlalchemy_exc = pytest.importorskip("sqlalchemy.exc")

from functory.engine.database.driver_errors import translate_driver_error  # noqa: E402
from functory.engine.errors import Invalid, Unavailable  # noqa: E402


@pytest.mark.parametrize(
    ("code", "text", "said"),
    [
        ("42501", "keine Berechtigung für Schema public", "CREATE on their schema"),
        ("3F000", "kein Schema für die Objekterzeugung ausgewählt", "search_path"),
        ("42P01", "Relation »event« existiert nicht", "functory db upgrade"),
        ("42703", "Spalte »depth« existiert nicht", "functory db upgrade"),
        ("25006", "Schreibende Transaktion", "the server that takes writes"),
        ("53300", "Verbindungsgrenze erreicht", "max_connections"),
        ("53100", "auf dem Gerät ist kein Platz", "free disk space"),
        ("40P01", "Verklemmung entdeckt", "it is tried again"),
        ("57014", "storniere Anfrage wegen Zeitüberschreitung", "pg_stat_activity"),
        ("55P03", "storniere Anfrage", "pg_stat_activity"),
    ],
)
def test_a_cause_is_found_in_every_language(code: str, text: str, said: str) -> None:
    found = translate_driver_error("db", _wrapped(code, text))
    assert isinstance(found, Unavailable) and found.why == text and said in found.try_


def test_a_text_that_the_encoding_cannot_hold_names_the_encoding() -> None:
    found = translate_driver_error("db", _wrapped("22P05", "Zeichen hat keine Entsprechung"))
    assert isinstance(found, Invalid) and "UTF8" in found.try_


def _wrapped(code: str, text: str) -> BaseException:
    original = psycopg.errors.lookup(code)(text)
    return sqlalchemy_exc.DBAPIError.instance("SELECT 1", None, original, psycopg.Error, dialect=_dialect())


def _dialect() -> object:
    from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

    return PGDialect_psycopg(dbapi=psycopg)
