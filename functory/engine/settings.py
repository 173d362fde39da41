"""Settings: from the environment (``FUNCTORY_*``) and the files it names, then ``functory.toml``, then defaults.

Every process reads them once at its start. Without any setting Functory runs embedded: a SQLite
file in ``.functory/`` and Celery's in-memory transport, all roles in one process.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from functory.engine import sqlite_urls
from functory.engine.errors import Invalid
from functory.engine.project_folder import ProjectFile, check_named_file, nearest_home
from functory.engine.secret_files import SecretFiles, named_files, variable
from functory.engine.setting_values import (
    as_digits,
    check_spelling,
    check_url,
    sqlalchemy_url,
    unreadable_list,
)
from functory.engine.settings_file import settings_file
from functory.engine.validation_messages import describe_faults

DATABASES = ("sqlite", "postgresql", "postgres")
BROKERS = ("memory", "none", "amqp", "amqps", "pyamqp", "redis", "rediss")


class Settings(BaseSettings):
    """The settings of a process. Each field is set by ``FUNCTORY_<NAME>`` or by ``<name> = …`` in ``functory.toml``."""

    model_config = SettingsConfigDict(
        env_prefix="FUNCTORY_", extra="forbid", frozen=True, hide_input_in_errors=True
    )

    home: Path = Field(
        default=Path(".functory"),
        description="Folder of the embedded database, the keys and scratch files; when not set, the nearest .functory "
        "of this folder and those above it.",
    )
    url: str | None = Field(
        default=None,
        description="Address of a server: commands and Python programs speak to it instead of a database here.",
    )
    database_url: SecretStr | None = Field(
        default=None,
        description="URL of the database: sqlite:///file or postgresql://user@host/name; a file in home when not set.",
    )
    database_direct_url: SecretStr | None = Field(
        default=None,
        description="URL of the same PostgreSQL database past its pooler, for wake-ups, migrations and backups.",
    )
    database_answer_seconds: float = Field(
        default=5.0,
        ge=0.2,
        le=300,
        description="Seconds without an answer after which PostgreSQL is asked whether it works on the statement.",
    )
    broker_url: SecretStr = Field(
        default=SecretStr("memory://"),
        description="URL of the message broker: memory:// (embedded), none:// (workers poll the database), amqp://… or redis://….",
    )
    namespace: str = Field(
        default="functory",
        pattern=r"^[a-z][a-z0-9_.-]{0,62}$",
        description="Prefix of the exchange and the queues on the broker.",
    )
    secret_key: SecretStr | None = Field(
        default=None,
        description="Key that seals stored secrets: 32 bytes as base64; former keys after it, with commas.",
    )
    secret_key_file: Path | None = Field(
        default=None,
        description="File with these keys, one a line, which roles read again when it changes.",
    )

    worker_slots: int = Field(
        default=4, ge=1, le=512, description="Executions that one worker runs at the same time."
    )
    batch_size: int = Field(
        default=200,
        ge=1,
        le=1000,
        description="Events that the router takes in one transaction; more means fewer commits and longer locks.",
    )
    message_size: int = Field(
        default=200, ge=1, le=500, description="Execution ids in one Celery message under load."
    )
    poll_seconds: float = Field(
        default=0.5,
        gt=0,
        le=60,
        description="Seconds between two polls of a role that gets no wake-ups. "
        "With wake-ups it polls at ten times this, in case one is lost.",
    )
    lease_seconds: float = Field(
        default=30.0,
        gt=0,
        le=3600,
        description="Seconds without a heartbeat after which an attempt is lost; three heartbeats by default.",
    )
    heartbeat_seconds: float = Field(
        default=10.0,
        gt=0,
        le=600,
        description="Seconds between two heartbeats of a worker; at most half of lease_seconds.",
    )
    live_milliseconds: int = Field(
        default=250,
        ge=50,
        le=60_000,
        description="Milliseconds between two times that a worker stores what its attempts print while they run.",
    )
    redispatch_seconds: float = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="Seconds after which a queued execution is sent again, because its message may be lost.",
    )
    claim_seconds: float = Field(
        default=2.0,
        gt=0,
        le=3600,
        description="Seconds that an execution waits for a message before a free worker claims it without one.",
    )
    stall_seconds: float = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="Seconds without messages, though they are sent, after which a worker ends to be restarted.",
    )
    grace_seconds: float = Field(
        default=20.0, ge=0, le=3600, description="Seconds that a role may finish its work after SIGTERM."
    )
    tree_usd: float = Field(
        default=1.0,
        ge=0,
        le=1_000_000,
        description="US dollars that one tree of executions may spend on language models.",
    )
    tree_tokens: int = Field(
        default=1_000_000,
        ge=0,
        le=10**12,
        description="Tokens of language models that one tree may use, asked and answered.",
    )
    tree_calls: int = Field(
        default=200, ge=0, le=10**9, description="Calls of language models that one tree may make."
    )
    tree_tool_calls: int = Field(
        default=500, ge=0, le=10**9, description="Calls of tools that one tree may make."
    )
    tree_children: int = Field(default=50, ge=0, le=10**9, description="Child runs that one tree may start.")
    tree_proposals: int = Field(
        default=20, ge=0, le=10**9, description="Proposals of functions that one tree may make."
    )
    tree_seconds: float = Field(
        default=86_400.0,
        ge=0,
        le=10**9,
        description="Seconds after its first call in which one tree may ask language models.",
    )
    day_usd: float = Field(
        default=10.0,
        ge=0,
        le=10_000_000,
        description="US dollars that all trees together may spend on language models in a day (UTC), "
        "unless a quota says otherwise.",
    )
    gateway_calls: int = Field(
        default=64, ge=1, le=4096, description="Calls of language models that one gateway has open at a time."
    )
    archive_days: float = Field(
        default=30.0,
        ge=0,
        le=100_000,
        description="Days that requests to language models and their answers are kept; what they cost is kept longer.",
    )
    llm_redact: list[str] = Field(
        default=[],
        description="Regular expressions (RE2) of what language models must not see: "
        "replaced in requests before they are stored and sent, and in answers.",
    )
    embedding_model: str | None = Field(
        default=None,
        max_length=200,
        description="Model that makes embeddings of memories and of functions, so that they are found by their meaning "
        "too; by their words alone when not set.",
    )
    receipt_days: float = Field(
        default=30.0,
        ge=1,
        le=36_500,
        description="Days that delivery receipts are kept; longer than any sender repeats itself.",
    )
    keep_days: float | None = Field(
        default=None,
        ge=1,
        le=36_500,
        description="Days that a finished causal tree, batch or backtest is kept; for ever when not set.",
    )
    keep_log_days: float | None = Field(
        default=None,
        ge=1,
        le=36_500,
        description="Days that log lines of a finished execution are kept; as long as its tree when not set.",
    )

    verify_seconds: float = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="Seconds between two checks of the invariants by a scheduler; 0 for never.",
    )

    max_depth: int = Field(
        default=16, ge=1, le=10_000, description="Longest causal chain, in executions; it stops event loops."
    )
    root_budget: int = Field(
        default=1000, ge=1, le=1_000_000, description="Executions that one root event or execution may cause."
    )
    trigger_rate: int = Field(
        default=6000,
        ge=0,
        le=1_000_000,
        description="Firings a minute of one trigger for one subject; 0 for no limit.",
    )
    trigger_source_rate: int = Field(
        default=30_000,
        ge=0,
        le=1_000_000,
        description="Firings a minute of one trigger for one source, or for /events, over all subjects; "
        "60 times the trigger's usual rate if that is more; 0 for no limit.",
    )
    source_rate: int = Field(
        default=30_000,
        ge=0,
        le=1_000_000,
        description="Events a minute of one source, over ten minutes; beyond it the source's breaker pauses it for "
        "ten minutes; 0 for no limit.",
    )
    trigger_repeat_rate: int = Field(
        default=60,
        ge=0,
        le=1_000_000,
        description="Firings a minute of one trigger for the same content from one source, or from /events, "
        "and for the same file or table row; 0 for no limit.",
    )
    max_event_bytes: int = Field(
        default=1_048_576,
        ge=1024,
        le=16_777_216,
        description="Largest data of an event or input, in bytes.",
    )

    min_tier: Literal["A", "B", "C"] = Field(
        default="C",
        description="Weakest confinement of functions that a worker starts with (A is the strongest).",
    )
    sandbox_tier: Literal["auto", "A", "B", "C"] = Field(
        default="auto",
        description="Confinement of functions; auto takes the strongest that this machine has.",
    )
    unsafe_no_sandbox: Literal["", "i-understand"] = Field(
        default="",
        description="Runs functions unconfined when set to i-understand; only for trusted code on other systems.",
    )
    zygotes: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Fork servers that one worker keeps; four a core when not set.",
    )
    spares: int = Field(
        default=1,
        ge=0,
        le=64,
        description="Confined children that wait, ready, for the next execution with the same pool key.",
    )
    zygote_executions: int = Field(
        default=1000, ge=1, le=10_000_000, description="Executions after which a fork server is replaced."
    )
    zygote_seconds: float = Field(
        default=600.0, gt=0, le=86_400, description="Age in seconds at which a fork server is replaced."
    )
    reuse_calls: int = Field(
        default=1000,
        ge=1,
        le=10_000_000,
        description="Executions after which a warm runner is replaced.",
    )
    reuse_seconds: float = Field(
        default=300.0, gt=0, le=86_400, description="Age in seconds at which a warm runner is replaced."
    )

    author_grants: (
        list[Literal["secret", "host", "model", "read", "write", "permission", "preload", "subprocess"]]
        | None
    ) = Field(
        default=None,
        description="Kinds of grants that take effect as declared; others wait for an operator (functory grant). "
        "All when embedded, else secret, host, model, permission.",
    )
    private_networks: list[str] = Field(
        default=[],
        description="Private networks (CIDR) that granted hosts may be in, for example 10.1.0.0/16.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="File of certificate authorities (PEM) that functions and installations of packages trust instead "
        "of the machine's. Default: SSL_CERT_FILE, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE of the environment.",
    )
    refuse_findings: list[str] = Field(
        default=[],
        description="Kinds of static findings that refuse a save, for example files; or danger, warning, info.",
    )
    package_index: SecretStr | None = Field(
        default=None,
        description="URL of the one index that packages come from; uv's own default when not set.",
    )
    packages_allow: list[str] | None = Field(
        default=None,
        description="Only packages that environments may hold, dependencies included; all when not set.",
    )
    packages_deny: list[str] = Field(default=[], description="Packages that no environment may hold.")
    packages_newest: str | None = Field(
        default=None, description="Time after which uploaded packages are ignored, for example 2026-06-01."
    )
    packages_bytes: int = Field(
        default=1_073_741_824, ge=1_048_576, description="Largest environment, in bytes on the disk."
    )
    packages_count: int = Field(default=200, ge=1, le=5000, description="Most packages in one environment.")

    host: str = Field(
        default="127.0.0.1", description="Address of the server role; only this machine by default."
    )
    port: int = Field(
        default=7400, ge=0, le=65535, description="Port of the server role; 0 takes a free one."
    )
    public_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$",
        description="URL under which others reach the server, for example https://events.example.com.",
    )
    trusted_hosts: list[str] = Field(
        default=[],
        description="Names under which the server may be reached, beyond host, that of public_url and addresses.",
    )
    api: Literal["on", "off"] = Field(
        default="on",
        description="off: the server has no HTTP API and no dashboard; webhooks, events, health and metrics stay.",
    )
    installation_name: str | None = Field(
        default=None,
        pattern=r"^[^\x00-\x1f\x7f]{1,40}$",
        description="Name of this installation on the pages of the dashboard; the namespace when not set.",
    )
    installation_color: Literal["none", "blue", "green", "amber", "red", "violet"] = Field(
        default="none",
        description="Colour of this installation on the pages, so that production does not look like a test.",
    )
    oidc_issuer: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s?#@]+$",
        description="URL of the OpenID Connect provider that users may log in by (needs the oidc extra).",
    )
    oidc_name: str = Field(
        default="single sign-on", max_length=40, description="Name of that provider on the page of the login."
    )
    oidc_client_id: str | None = Field(default=None, description="Client id of this server at the provider.")
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="Client secret of this server at the provider; none for a public client."
    )
    oidc_scopes: list[str] = Field(
        default=["openid", "profile", "email"], description="Scopes that the provider is asked for."
    )
    oidc_name_claim: str = Field(
        default="preferred_username", description="Claim with the name that a user gets at the first login."
    )
    oidc_claim: str = Field(
        default="groups", description="Claim whose values oidc_roles and oidc_labels map."
    )
    oidc_roles: dict[str, Literal["viewer", "operator", "author", "admin"]] = Field(
        default={},
        description="Role by value of the claim; a user without one of these values is not let in.",
    )
    oidc_labels: dict[str, list[str]] = Field(
        default={}, description="Labels by value of the claim; without any, a user's labels are not changed."
    )
    events_token: SecretStr | None = Field(
        default=None,
        description="Bearer token of POST /events; without it, only this machine may send there.",
    )
    metrics_token: SecretStr | None = Field(
        default=None,
        description="Bearer token of the server's /metrics, /openapi.json and the parts of /readyz; "
        "without it, only this machine may read them.",
    )
    metrics_host: str = Field(
        default="127.0.0.1", description="Address of the metrics port; only this machine by default."
    )
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Port of its own for /metrics, of any role; 0 takes a free one.",
    )
    metrics_name_labels: Literal["on", "pinned", "off"] = Field(
        default="on",
        description="Names of functions, triggers (the first 200 of each) and agents (the first 40) as labels; or only "
        "pinned ones, or none.",
    )
    metrics_pinned_names: list[str] = Field(
        default=[],
        description="Names of functions, triggers and agents that are labels before all others.",
    )
    http_head_seconds: float = Field(
        default=10.0,
        ge=0.1,
        le=600,
        description="Seconds that a client of the server has for the head of a request, and to read an answer.",
    )
    http_connections: int = Field(
        default=500, ge=1, le=100_000, description="Connections of clients that the server keeps open."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level that is logged."
    )
    log_json: bool = Field(default=False, description="Writes each log line as one JSON object.")
    traces: Literal["off", "on"] = Field(
        default="off",
        description="on: sends traces to where the variables OTEL_* say (OpenTelemetry; needs the otel extra).",
    )

    @field_validator("database_url", "database_direct_url")
    @classmethod
    def _known_database(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            check_url(value.get_secret_value(), DATABASES, "database")
        return value

    @field_validator("broker_url")
    @classmethod
    def _known_broker(cls, value: SecretStr) -> SecretStr:
        check_url(value.get_secret_value(), BROKERS, "broker")
        return value

    @model_validator(mode="after")
    def _nearest_home(self) -> Settings:
        if "home" not in self.model_fields_set:
            # Not an assignment: the settings are frozen, and the source of this value stays "default".
            vars(self)["home"] = nearest_home(self.home)
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = ProjectFile(settings_cls, toml_file=settings_file())
        return init_settings, env_settings, SecretFiles(settings_cls), file

    @cached_property
    def embedded(self) -> bool:
        """True when the broker is in this process: all roles run here."""
        return self.broker_url.get_secret_value().startswith("memory")

    @cached_property
    def brokerless(self) -> bool:
        """True without a broker: workers claim from the database, and no events are published."""
        return self.broker_url.get_secret_value().startswith("none")

    @cached_property
    def event_exchange(self) -> str:
        """The name of the exchange that all events go onto."""
        return f"{self.namespace}.events"

    @cached_property
    def publishes(self) -> bool:
        """True with a broker that others can reach: events are published on it."""
        return not (self.embedded or self.brokerless)

    @cached_property
    def database(self) -> str:
        """The database's URL in SQLAlchemy's spelling. Holds a password: never print it."""
        if self.database_url is None:
            return sqlite_urls.url_of(self.home / "functory.db")
        return sqlalchemy_url(self.database_url.get_secret_value())

    @cached_property
    def direct_database(self) -> str | None:
        """The database's URL past its pooler; None when not set. Holds a password: never print it."""
        direct = self.database_direct_url
        return None if direct is None else sqlalchemy_url(direct.get_secret_value())

    @cached_property
    def broker(self) -> str:
        """The broker's URL. Holds a password: never print it."""
        return self.broker_url.get_secret_value()


def load_settings(**overrides: Any) -> Settings:
    """Read the settings. Raises :class:`Invalid` that names each wrong setting and its allowed values."""
    check_named_file()
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        faults = []
        for name, wrong in describe_faults(error, Settings.model_fields):
            text = getattr(Settings.model_fields.get(name), "description", None)
            given = os.environ.get(own := f"FUNCTORY_{name.upper()}")
            if given == "":
                wrong = "it is empty; unset the variable, or give a value"  # noqa: PLW2901
            wrong = as_digits(wrong, Settings.model_fields.get(name))  # noqa: PLW2901
            place = name or "settings" if given is None else own
            if name in named_files():
                place = variable(name)
            faults.append(f"{place}: {wrong} ({text})" if text else f"{place}: {wrong}")
        try_ = f"correct it in the environment or in {settings_file()}"
        raise Invalid("wrong settings", "\n".join(faults), try_) from None
    except SettingsError as error:
        raise unreadable_list(str(error)) from None
    except ValueError as error:
        raise Invalid(
            f"the settings file {settings_file()} cannot be read",
            str(error),
            "correct it: it is TOML",
        ) from None
    check_spelling(Settings.model_fields)
    _check_together(settings)
    return settings


def _check_together(settings: Settings) -> None:
    if settings.heartbeat_seconds * 2 > settings.lease_seconds:
        raise Invalid(
            "wrong settings",
            f"heartbeat_seconds ({settings.heartbeat_seconds:g}) must be at most half of lease_seconds "
            f"({settings.lease_seconds:g}), or a healthy worker loses its lease after one late heartbeat",
            "raise FUNCTORY_LEASE_SECONDS or lower FUNCTORY_HEARTBEAT_SECONDS",
        )
