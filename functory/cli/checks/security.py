"""Checks of the keys that seal secrets, and of webhooks."""

from __future__ import annotations

from functory.cli.checks.finding import Finding
from functory.cli.checks.installation import Installation


def secrets(installation: Installation) -> list[Finding]:
    """The keys that seal secrets, and secrets that none of them opens."""
    from functory.engine.access.key_ring import KeyRing
    from functory.engine.access.secrets import Secrets

    settings = installation.settings
    ring = KeyRing(settings)
    if ring.is_file and not ring.file.exists():
        if settings.embedded and settings.secret_key_file is None:
            return [Finding("secrets", "ok", f"no key yet; the first secret creates {ring.file}")]
        return [Finding("secrets", "warn", "no key: no secret can be set or used", "set FUNCTORY_SECRET_KEY")]
    keys = [one.id.hex() for one in ring.load()]
    stored = installation.data
    used = Secrets(stored, settings).key_usage() if stored is not None else {}
    unknown = sum(count for id_, count in used.items() if id_ and id_ not in keys)
    former = sum(count for id_, count in used.items() if id_ != keys[0]) - unknown
    where = str(ring.file) if ring.is_file else "FUNCTORY_SECRET_KEY"
    found = [Finding("secrets", "ok", f"the key is {where}" + (f", {len(keys)} keys" if keys[1:] else ""))]
    if unknown:
        advice = "add the key that sealed them to the ring, or set them again: functory secret set NAME"
        found.append(Finding("secrets", "fail", f"{unknown} are sealed with a key that is not there", advice))
    if former and keys[1:]:
        advice = "functory secret rotate-key --reseal"
        found.append(Finding("secrets", "warn", f"{former} are sealed with a former key", advice))
    return found


def webhooks(installation: Installation) -> list[Finding]:
    """Webhooks without authentication, or whose secret is not set."""
    from functory.engine.access.secrets import Secrets
    from functory.engine.sources.store import Sources

    stored = installation.data
    if stored is None:
        return []
    found: list[tuple[str, str]] = []
    rows = [row for row in Sources(stored).list("webhook") if row["state"] == "enabled"]
    for row in rows:
        auth = row["config"]["auth"]
        if auth["type"] == "none":
            found.append(
                (
                    f"{row['name']} has no authentication: anybody who knows its address can write events",
                    f"functory webhook add {row['name']} --auth token --secret NAME",
                )
            )
        found += [
            (f"{row['name']} needs the secret {name}, which is not set", f"functory secret set {name}")
            for name in Secrets(stored, installation.settings).missing(list(auth.get("secret", ())))
        ]
    if not found:
        return [Finding("webhooks", "ok", f"{len(rows)} enabled")] if rows else []
    return [Finding("webhooks", "warn", what, advice) for what, advice in found]
