"""``functory webhook``: saved, tried, sent to, paused; no command shows or takes a secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from functory.api import create_app
from functory.api.server import Server
from functory.cli.commands import doctor
from functory.cli.main import main
from functory.client.functory import Functory
from functory.engine.settings import load_settings
from functory.engine.sources.webhooks import Webhooks

KEY = "the-key-of-the-sender"


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """Runs a command line in a folder of its own: its status, its answer (JSON read), what it said beside."""
    monkeypatch.chdir(tmp_path)
    with Functory(load_settings()) as engine:
        engine.secrets.set("HOOK", KEY)

    def run(*arguments: str) -> tuple[int, Any, str]:
        status = main(list(arguments))
        said = capsys.readouterr()
        assert KEY not in said.out + said.err
        answer = json.loads(said.out) if "--json" in arguments and said.out else said.out
        return status, answer, said.err

    return run


GITHUB = ("webhook", "add", "github", "--auth", "github", "--secret", "HOOK")


def test_a_webhook_is_saved_and_its_address_printed(cli: Callable[..., Any], monkeypatch: Any) -> None:
    assert cli(*GITHUB) == (0, "saved webhook github v1\nhttp://127.0.0.1:7400/webhooks/github\n", "")
    assert cli(*GITHUB)[1].startswith("webhook github v1 is unchanged\n")
    monkeypatch.setenv("FUNCTORY_PUBLIC_URL", "https://events.example.com/in/")
    status, row, _ = cli(*GITHUB, "--type", '"github." + headers["x-github-event"]', "--json")
    assert (status, row["version"], row["created"]) == (0, 2, True)
    assert row["url"] == "https://events.example.com/in/webhooks/github"
    assert row["config"]["auth"] == {"type": "github", "secret": ["HOOK"]}
    assert cli("webhook", "list")[1].startswith("github\tenabled\tgithub\thttps://")
    assert cli("webhook", "list", "-q")[1] == "github\n"


def test_every_option_arrives_in_the_configuration(cli: Callable[..., Any]) -> None:
    status, row, _ = cli(
        "webhook", "add", "shop", "--auth", "hmac", "--secret", "HOOK", "--secret", "NEXT", "--header", "X-Sign",
        "--algorithm", "sha512", "--encoding", "base64", "--prefix", "s=", "--timestamp-header", "X-Time",
        "--signed", "{timestamp}:{body}", "--tolerance", "1m", "--subject", "body.id", "--data", "body",
        "--delivery", "body.id", "--when", "has(body.id)", "--keep", "X-Shop", "--max-bytes", "1000",
        "--rate", "100/1m", "--json",
    )  # fmt: skip
    assert status == 0
    assert row["config"] == {
        "auth": {
            "type": "hmac",
            "secret": ["HOOK", "NEXT"],
            "header": "x-sign",
            "algorithm": "sha512",
            "encoding": "base64",
            "prefix": "s=",
            "timestamp_header": "x-time",
            "signed": "{timestamp}:{body}",
            "tolerance": "1m",
        },
        "subject": "body.id",
        "data": "body",
        "delivery": "body.id",
        "when": "has(body.id)",
        "headers": ["x-shop"],
        "max_bytes": 1000,
        "rate": {"limit": 100, "period": "1m"},
    }
    assert row["warnings"] == ["secret NEXT is not set; try: functory secret set NEXT"]
    config = json.dumps(row["config"])
    status, again, _ = cli("webhook", "add", "shop", "--config", config, "--json")
    assert (status, again["created"]) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "the webhook has no authentication"),
        (("--secret", "HOOK"), "--secret needs --auth"),
        (("--auth", "github"), "secret: it is missing"),
        (("--auth", "github", "--secret", "not!a!name"), "not its value"),
        (("--auth", "none"), "allow_unauthenticated"),
        (("--auth", "github", "--secret", "HOOK", "--type", "body."), "not valid CEL"),
        (("--auth", "github", "--secret", "HOOK", "--rate", "often"), "LIMIT/PERIOD"),
        (("--auth", "github", "--secret", "HOOK", "--rate", "5/1y"), "wrong period"),
        (("--config", "[]"), "must be a JSON object"),
        (
            ("--config", '{"auth": {"type": "github", "secret": "HOOK"}, "typ": "x"}'),
            "typ: there is no such field",
        ),
    ],
)
def test_what_is_wrong_is_said(cli: Callable[..., Any], arguments: tuple[str, ...], said: str) -> None:
    status, _, error = cli("webhook", "add", "x", *arguments)
    assert status == 2 and said in error
    assert "not!a!name" not in error


def test_wrong_names_and_names_that_are_not_there(cli: Callable[..., Any]) -> None:
    assert cli("webhook", "add", "../x", *GITHUB[3:])[0] == 2
    for verb in ("show", "test", "pause", "resume"):
        status, _, error = cli("webhook", verb, "none")
        assert status == 3 and "not found" in error
    assert cli("webhook", "delete", "none", "--yes")[0] == 3


def test_a_request_is_tried_without_sending_it(cli: Callable[..., Any]) -> None:
    expressions = {
        "--type": '"github." + headers["x-github-event"]',
        "--subject": "body.repository",
        "--when": 'body.action != "edited"',
    }
    cli(*GITHUB, *(word for pair in expressions.items() for word in pair))
    tried = ("webhook", "test", "github", "--header", "X-GitHub-Event=issues", "--json", "--data")
    status, made, _ = cli(*tried, '{"action": "opened", "repository": "functory"}')
    assert (status, made["type"], made["subject"]) == (0, "github.issues", "functory")
    assert made["data"]["body"]["action"] == "opened"
    assert cli(*tried, '{"action": "edited"}')[:2] == (0, {"ignored": True})
    status, made, _ = cli(*tried, '{"action": "opened"}')
    assert status == 1 and "Key not found" in made["problem"]
    assert "github.issues" in cli(*tried[:-2], "--data", '{"action": "opened", "repository": "f"}')[1]
    with Functory(load_settings()) as engine:
        assert engine.events.list(type_="github.issues") == []


def test_a_signed_request_is_sent_to_the_running_server(cli: Callable[..., Any]) -> None:
    for name, auth in {
        "github": ("github", "--secret", "HOOK"),
        "stripe": ("stripe", "--secret", "HOOK"),
        "slack": ("slack", "--secret", "HOOK"),
        "standard": ("standard", "--secret", "HOOK"),
        "hmac": ("hmac", "--secret", "HOOK", "--header", "x-sign", "--timestamp-header", "x-time"),
        "token": ("token", "--secret", "HOOK"),
        "basic": ("basic", "--secret", "HOOK", "--user", "ada"),
        "open": ("none", "--allow-unauthenticated"),
    }.items():
        assert cli("webhook", "add", name, "--auth", *auth)[0] == 0
    with Functory(load_settings()) as engine:
        server = Server(create_app(engine), "127.0.0.1", 0)
        server.start()
        try:
            for name in ("github", "stripe", "slack", "standard", "hmac", "token", "basic", "open"):
                status, sent, _ = cli(
                    "webhook", "test", name, "--send", "--url", f"{server.url}/webhooks/{name}", "--json"
                )
                assert (status, sent["status"], sent["answer"]["duplicate"]) == (0, 202, False), name
            status, sent, _ = cli(
                "webhook", "test", "github", "--send", "--url", f"{server.url}/webhooks/none", "--json"
            )
            assert (status, sent["status"]) == (1, 404)
        finally:
            server.stop(5)
        assert len(engine.events.list(type_="webhook.received")) == 8
        assert KEY not in json.dumps([row["data"] for row in engine.events.list(payloads=True)])
    status, _, error = cli("webhook", "test", "github", "--send", "--url", f"{server.url}/webhooks/github")
    assert status == 6 and "does not answer" in error
    assert cli("webhook", "test", "github", "--send", "--url", "http://x:y")[0] == 2


def test_pause_resume_show_and_delete(cli: Callable[..., Any]) -> None:
    cli(*GITHUB)
    cli("webhook", "pause", "github", "--note", "too much")
    shown = cli("webhook", "show", "github")[1]
    assert "paused" in shown and "too much" in shown and "auth.secret" in shown
    cli("webhook", "resume", "github")
    assert cli("webhook", "show", "github", "--json")[1]["state"] == "enabled"
    assert cli("webhook", "delete", "github")[0] == 2
    assert cli("webhook", "delete", "github", "--yes")[0] == 0
    assert cli("webhook", "list", "--json")[1] == []


def test_show_says_why_requests_were_refused(cli: Callable[..., Any]) -> None:
    cli(*GITHUB)
    assert "BECAUSE" not in cli("webhook", "show", "github")[1]
    with Functory(load_settings()) as engine:
        row = engine.sources.get("webhook", "github")
        Webhooks(engine.database).record_refusals(row["id"], "a request was refused", {"proof_wrong": 3})
    for shown in (cli("webhook", "show", "github")[1], cli("source", "show", "webhook", "github")[1]):
        (line,) = [line for line in shown.splitlines() if "credentials are wrong" in line]
        assert line.split()[0] == "3"
    for noun in (("webhook",), ("source",)):
        arguments = ("show", "webhook", "github") if noun == ("source",) else ("show", "github")
        (one,) = cli(*noun, *arguments, "--json")[1]["refusals"]
        assert (one["reason"], one["count"]) == ("proof_wrong", 3)


def test_doctor_looks_at_webhooks(cli: Callable[..., Any]) -> None:
    cli(*GITHUB)
    cli("webhook", "add", "open", "--auth", "none", "--allow-unauthenticated")
    cli("webhook", "add", "unset", "--auth", "token", "--secret", "NOT_SET")
    found = {finding.found: finding for finding in doctor.run_checks() if finding.check == "webhooks"}
    assert {finding.verdict for finding in found.values()} == {"warn"}
    assert any("open" in text and "anybody" in text for text in found)
    assert any("unset" in text and "NOT_SET" in text for text in found)
