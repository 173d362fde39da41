"""``functory webhook``: addresses to which other systems send events. Secrets are given by name only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import MaxPerMinute, command_group, option
from functory.cli.input import flow_control, values
from functory.cli.output.saved import print_saved
from functory.cli.source_verbs import SourceNoun, source_verbs
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput

if TYPE_CHECKING:
    from functory.client.functory import Functory

app = command_group("Webhooks: addresses to which other systems send events over HTTP.")

NAME_HELP = "Name of the webhook: the last part of its address."
Name = Annotated[str, typer.Argument(help=NAME_HELP, show_default=False)]


@app.command(
    epilog="Example: functory webhook add github --auth github --secret GITHUB_SECRET "
    '--type \'"github." + headers["x-github-event"]\''
)
def add(
    name: Name,
    auth: Annotated[
        str | None,
        option("Authentication: github, stripe, slack, standard, hmac, token, basic or none.", "--auth"),
    ] = None,
    secret: Annotated[
        list[str] | None, option("Name of a stored secret. Repeatable, for a rotation.", "--secret")
    ] = None,
    header: Annotated[str | None, option("Header of the signature (hmac) or of the token (token).")] = None,
    algorithm: Annotated[str | None, option("Hash: sha256, sha512 or sha1 (hmac).")] = None,
    encoding: Annotated[str | None, option("Encoding of the signature: hex or base64 (hmac).")] = None,
    prefix: Annotated[str | None, option("Text before the signature, such as sha256= (hmac).")] = None,
    timestamp_header: Annotated[str | None, option("Header of the signed timestamp (hmac).")] = None,
    signed: Annotated[str | None, option("Signed text, such as {timestamp}.{body} (hmac).")] = None,
    tolerance: Annotated[
        str | None, option("Maximum difference of a signed timestamp from the clock. Default: 5m.")
    ] = None,
    user: Annotated[str | None, option("User name (basic).")] = None,
    allow_unauthenticated: Annotated[
        bool,
        typer.Option(
            "--allow-unauthenticated",
            help="Accept requests without authentication. Required together with --auth none.",
        ),
    ] = False,
    type_: Annotated[
        str | None, option("CEL expression: type of the event. Default: webhook.received.", "--type")
    ] = None,
    subject: Annotated[
        str | None, option("CEL expression: subject of the event. Default: the name of the webhook.")
    ] = None,
    data: Annotated[
        str | None, option("CEL expression: data of the event. Default: webhook, headers, query and body.")
    ] = None,
    delivery: Annotated[
        str | None,
        option("CEL expression: id of a delivery, such as body.id. A repeated delivery writes no event."),
    ] = None,
    when: Annotated[
        str | None, option("CEL expression: true for requests that become events. Default: all.")
    ] = None,
    keep: Annotated[
        list[str] | None, option("Header to include in the data of the event. Repeatable.", "--keep")
    ] = None,
    max_bytes: Annotated[str | None, option("Maximum size of the body: bytes, or as 512KiB.")] = None,
    rate: Annotated[
        str | None, option("Maximum number of events in a period; further requests get 429: 100/1m.")
    ] = None,
    max_per_minute: MaxPerMinute = None,
    file: Annotated[
        str | None, option("Whole configuration: JSON text, @file, or - for stdin.", "--config")
    ] = None,
    json: AsJson = False,
) -> None:
    """Save a webhook and print its address. CEL expressions can use headers, body, query and method."""
    from functory.engine.errors import Invalid
    from functory.engine.serialization import written_quantities

    fields = {
        "auth": _auth(
            auth,
            secret=secret,
            header=header,
            algorithm=algorithm,
            encoding=encoding,
            prefix=prefix,
            timestamp_header=timestamp_header,
            signed=signed,
            tolerance=tolerance,
            user=user,
            allow_unauthenticated=allow_unauthenticated or None,
        ),
        "type": type_,
        "subject": subject,
        "data": data,
        "delivery": delivery,
        "when": when,
        "headers": keep,
        "max_bytes": None if max_bytes is None else written_quantities.size(max_bytes, "--max-bytes"),
        "rate": None if rate is None else flow_control.parse_rate(rate, "--rate"),
        "max_per_minute": max_per_minute,
    }
    config = values.read_json_object(file, "--config") if file is not None else {}
    config |= {field: value for field, value in fields.items() if value is not None}
    if "auth" not in config:
        raise Invalid(
            "the webhook has no authentication",
            "everyone who knows the address could write events",
            "--auth github --secret NAME; see functory webhook add --help",
        )
    with session.engine(create=True) as engine:
        row = engine.sources.save("webhook", name, config, author=engine.author)
        shown = _with_address(engine, row)
        whole = _NOUN.as_json(engine, row) | {"warnings": shown["warnings"]} if json else {}
    for warning in shown["warnings"]:
        console.warn(warning)
    print_saved(CommandOutput(json=json), "webhook", shown, whole, shown["url"])


@app.command(epilog="Example: functory webhook test github --data @issue.json --header x-github-event=issues")
def test(
    name: Name,
    data: Annotated[
        str, typer.Option("--data", help="Body: JSON text, @file, or - for stdin.", show_default=False)
    ] = '{"test": true}',
    header: Annotated[list[str] | None, option("Header: name=value. Repeatable.", "--header")] = None,
    query: Annotated[str, typer.Option("--query", help="Query, such as a=1&b=2.", show_default=False)] = "",
    send: Annotated[
        bool,
        typer.Option(
            "--send", help="Sign the request and send it to the running server: it becomes an event."
        ),
    ] = False,
    url: Annotated[str | None, option("Address to send to, instead of the address of the webhook.")] = None,
    json: AsJson = False,
) -> int:
    """Show the event that a request would become. Nothing is sent or stored without --send."""
    from functory.engine.serialization import json_codec

    body = json_codec.encode(values.read_json(data, "--data"))
    headers = [
        (key.lower(), str(value)) for key, value in values.parse_pairs(header or (), "--header").items()
    ]
    if not any(key == "content-type" for key, _ in headers):
        headers.append(("content-type", "application/json"))
    with session.engine() as engine:
        row = engine.sources.get("webhook", name)
        if send:
            answer = _send(engine, row, body, headers, query, url)
        else:
            from functory.triggers.sources.webhooks.receiver import dry_run

            answer = dry_run(row, body, headers, query)
    out = CommandOutput(json=json)
    if json:
        out.value(answer)
    else:
        out.record(answer)
    return 0 if answer.get("status", 200) < 400 and not answer.get("problem") else 1


def _auth(type_: str | None, **fields: Any) -> dict[str, Any] | None:
    """Combine the authentication options. Raises :class:`Invalid` for options without ``--auth``."""
    from functory.engine.errors import Invalid

    given_ = {field: value for field, value in fields.items() if value is not None}
    if type_ is None:
        if given_:
            option = "--" + next(iter(given_)).replace("_", "-")
            raise Invalid(
                f"{option} needs --auth", "it selects how requests are authenticated", "--auth hmac"
            )
        return None
    return {"type": type_} | given_


def _with_address(engine: Functory, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the address and warnings of the webhook."""
    auth = row["config"]["auth"]
    warnings = [
        f"secret {name} is not set; try: functory secret set {name}"
        for name in engine.secrets.missing(list(auth.get("secret", ())))
    ]
    if auth["type"] == "none":
        warnings.append("everyone who knows the address can write events")
    return row | {
        "proof": auth["type"],
        "url": _address(engine, row),
        "warnings": warnings,
    }


def _address(engine: Functory, row: Mapping[str, Any]) -> str:
    """The address of a webhook. A server says it with the row."""
    from functory.engine.sources.webhooks import webhook_url

    return row["url"] if "url" in row else webhook_url(engine.settings, row["name"])


def _send(
    engine: Functory,
    row: Mapping[str, Any],
    body: bytes,
    headers: Sequence[tuple[str, str]],
    query: str,
    url: str | None,
) -> dict[str, Any]:
    """Send a signed request to the server. Raises :class:`Unavailable` without an answer."""
    import httpx

    from functory.engine.database.clock import new_id
    from functory.engine.errors import Invalid, Unavailable
    from functory.engine.serialization import json_codec
    from functory.triggers.sources import registry
    from functory.triggers.sources.webhooks import WebhookSource, signatures

    auth = registry.parse_config(WebhookSource(), row["config"]).auth
    key = engine.secrets.open(auth.secret[0]).get_secret_value() if auth.secret else ""
    now = engine.now().timestamp()
    proof = signatures.sign(auth, key, body, now, new_id())
    address = (url or _address(engine, row)) + (f"?{query}" if query else "")
    try:
        answer = httpx.post(address, content=body, headers=[*headers, *proof], timeout=30)
    except httpx.InvalidURL as error:
        raise Invalid(f"{address} is not a valid address", str(error)) from None
    except httpx.HTTPError as error:
        raise Unavailable(
            f"{address} does not answer", str(error) or type(error).__name__, "functory server"
        ) from None
    try:
        found = json_codec.loads(answer.content)
    except Invalid:
        found = answer.text[:1000]
    return {"status": answer.status_code, "answer": found}


_NOUN = SourceNoun(
    name="webhook",
    kinds=("webhook",),
    name_help=NAME_HELP,
    example="github",
    first_step="add --help",
    help={
        "list": "List all webhooks with their authentication and last event.",
        "show": "Show address and configuration of a webhook, and why requests were refused.",
        "pause": "Pause a webhook: senders get the answer of an unknown webhook until it is resumed.",
        "resume": "Resume a paused webhook.",
        "delete": "Delete a webhook. Its events stay.",
    },
    fields="name state version config note problem problem_at last_event_at events_last_hour refused refusals author "
    "url",
    details="warnings",
    columns={
        "name": "NAME",
        "state": "STATE",
        "proof": "AUTH",
        "url": "ADDRESS",
        "events_last_hour": "EVENTS/H",
        "refused": "REFUSED",
        "last_event_at": "LAST EVENT",
        "problem": "PROBLEM",
    },
    rows=lambda engine: [_with_address(engine, row) for row in engine.sources.list("webhook")],
    find=lambda engine, name: engine.sources.get("webhook", name),
    detail=_with_address,
)
source_verbs(app, _NOUN)
