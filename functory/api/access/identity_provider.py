"""The OpenID Connect provider: authorization code flow with PKCE, state and nonce (OpenID Connect Core 1.0, section
3.1; RFC 7636).

What a login has to remember between its two requests is in a sealed cookie, so that any server of a deployment may
take the second one.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx

from functory.api import callers
from functory.api.access.login_failures import LoginFailed, ProviderUnavailable
from functory.engine import extras
from functory.engine.errors import Invalid
from functory.engine.settings import Settings

# A person has this long at the provider.
FLOW_SECONDS = 600
PURPOSE = b"functory login flow"

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_TIMEOUT = 10.0
_METADATA_SECONDS = 600.0
# Between two reads of the keys: a token with an unknown key must not make us ask the provider each time.
_KEYS_SECONDS = 10.0
_LEEWAY_SECONDS = 60
_MAX_ANSWER = 1_000_000

Keys = Callable[[bytes], Sequence[bytes]]


@dataclass(frozen=True)
class Answer:
    """What the provider says of the user whom it sends back.

    ``confirmed_at`` is when the user gave its password there, in seconds; None when the provider does not say.
    ``login_id`` names the login that is confirmed, when it is no new one.
    """

    claims: Mapping[str, Any]
    confirmed_at: float | None
    login_id: str | None


class IdentityProvider:
    """The provider of the settings. ``derive_keys`` returns the keys that seal the cookie, the first one to use, and
    ``now`` the time that all servers share, in seconds.
    """

    def __init__(self, settings: Settings, derive_keys: Keys, now: Callable[[], float]) -> None:
        self._settings = settings
        self._derive_keys = derive_keys
        self._now = now
        self._issuer = (settings.oidc_issuer or "").rstrip("/")
        self._lock = threading.Lock()
        self._metadata: tuple[float, dict[str, Any]] = (-_METADATA_SECONDS, {})
        self._keys: tuple[float, dict[str, Any]] = (-_KEYS_SECONDS, {})
        _check(settings)

    def begin(self, redirect_uri: str, login_id: str | None = None) -> tuple[str, str]:
        """Return the address at the provider to send the browser to, and the sealed cookie of this login.

        With the id of a login the user is asked for its password whether the provider knows it or not (OpenID Connect
        Core 1.0, section 3.1.2.1). Raises :class:`ProviderUnavailable` when the provider does not answer.
        """
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        flow = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
        query = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self._settings.oidc_scopes),
            "state": flow["state"],
            "nonce": flow["nonce"],
            "code_challenge": create_s256_code_challenge(flow["verifier"]),
            "code_challenge_method": "S256",
        }
        if login_id is not None:
            query |= {"prompt": "login", "max_age": "0"}
        endpoint = self._endpoint("authorization_endpoint")
        now = self._now()
        sealed = self._seal(
            flow
            | {"redirect_uri": redirect_uri, "login_id": login_id, "at": now, "until": now + FLOW_SECONDS}
        )
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", sealed

    def finish(self, sealed: str | None, query: Mapping[str, str]) -> Answer:
        """Return what the provider says of the user whom it has sent back. Raises :class:`LoginFailed` for an answer
        that is not the one to this browser's request, and :class:`ProviderUnavailable`.
        """
        flow = self._open(sealed)
        if flow is None or flow["until"] < self._now():
            raise LoginFailed(
                "not_begun", "this login was not begun here", "or it took more than ten minutes"
            )
        if not hmac.compare_digest(query.get("state", "").encode(), flow["state"].encode()):
            raise LoginFailed("not_begun", "the answer is for another login", "its state differs")
        if "error" in query:
            raise LoginFailed("provider_refused", "the provider did not log you in", query["error"][:100])
        claims = self._claims(self._exchange(query.get("code", ""), flow), flow["nonce"])
        at = claims.get("auth_time")
        confirmed_at = None
        if isinstance(at, int | float) and 0 <= at <= self._now() + _LEEWAY_SECONDS:
            confirmed_at = float(at)
        login_id = flow.get("login_id")
        if login_id is not None and (confirmed_at is None or confirmed_at < flow["at"] - _LEEWAY_SECONDS):
            raise LoginFailed(
                "not_asked_again",
                "the provider did not ask for the password again",
                "its token has no auth_time" if at is None else "its auth_time is not that of this answer",
            )
        return Answer(claims, confirmed_at, login_id)

    def _exchange(self, code: str, flow: Mapping[str, Any]) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": flow["redirect_uri"],
            "client_id": self._settings.oidc_client_id or "",
            "code_verifier": flow["verifier"],
        }
        secret = self._settings.oidc_client_secret
        auth = None
        if secret is not None:
            methods = self._read_metadata().get(
                "token_endpoint_auth_methods_supported", ["client_secret_basic"]
            )
            if "client_secret_basic" in methods:
                auth = httpx.BasicAuth(self._settings.oidc_client_id or "", secret.get_secret_value())
            else:
                form["client_secret"] = secret.get_secret_value()
        return self._ask("POST", self._endpoint("token_endpoint"), data=form, auth=auth)

    def _claims(self, answer: Mapping[str, Any], nonce: str) -> dict[str, Any]:
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import JoseError

        text = str(answer.get("id_token", ""))
        try:
            decoded = jwt.decode(text, self._key_of(text), algorithms=list(_ALGORITHMS))
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                options={
                    "iss": {"essential": True, "value": self._read_metadata()["issuer"]},
                    "aud": {"essential": True, "value": self._settings.oidc_client_id},
                },
                params={
                    "client_id": self._settings.oidc_client_id,
                    "nonce": nonce,
                    "access_token": answer.get("access_token"),
                },
            )
            claims.validate(now=int(self._now()), leeway=_LEEWAY_SECONDS)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise LoginFailed(
                "invalid_answer", "the provider's answer is not valid", type(error).__name__
            ) from None
        if claims.get("nonce") != nonce or not isinstance(claims.get("sub"), str):
            raise LoginFailed(
                "invalid_answer", "the provider's answer is not valid", "it is for another login"
            )
        return dict(claims)

    def _key_of(self, token: str) -> Any:
        """Return the provider's keys; they are read again when the token names one that is not among them."""
        from joserfc.jwk import KeySet

        header = json.loads(_decode(token.partition(".")[0]))
        kid = header.get("kid") if isinstance(header, dict) else None
        with self._lock:
            read_at, keys = self._keys
            known = [one.get("kid") for one in keys.get("keys", ())]
            if time.monotonic() - read_at > _KEYS_SECONDS and (not known or (kid and kid not in known)):
                keys = self._ask("GET", self._endpoint("jwks_uri"))
                self._keys = (time.monotonic(), keys)
        return KeySet.import_key_set(keys)  # type: ignore[arg-type]

    def _endpoint(self, name: str) -> str:
        endpoint = self._read_metadata().get(name)
        if not isinstance(endpoint, str) or not _is_safe(endpoint):
            raise ProviderUnavailable(f"the identity provider names no {name}", f"asked at {self._issuer}")
        return endpoint

    def _read_metadata(self) -> dict[str, Any]:
        read_at, metadata = self._metadata
        if time.monotonic() - read_at > _METADATA_SECONDS:
            metadata = self._ask("GET", f"{self._issuer}/.well-known/openid-configuration")
            if str(metadata.get("issuer", "")).rstrip("/") != self._issuer:
                raise ProviderUnavailable(
                    "the identity provider has another name", f"FUNCTORY_OIDC_ISSUER is {self._issuer}"
                )
            self._metadata = (time.monotonic(), metadata)
        return metadata

    def _ask(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        verify: Any = True
        if self._settings.ca_file is not None:
            verify = ssl.create_default_context(cafile=str(self._settings.ca_file))
        try:
            with httpx.Client(timeout=_TIMEOUT, verify=verify, trust_env=True) as client:
                answer = client.request(method, url, headers={"accept": "application/json"}, **more)
            found = answer.json() if len(answer.content) <= _MAX_ANSWER else None
        except (httpx.HTTPError, ValueError) as error:
            raise ProviderUnavailable(
                "the identity provider does not answer", f"{type(error).__name__} at {urlsplit(url).netloc}"
            ) from None
        if answer.status_code in (400, 401) and method == "POST":
            why = found.get("error", "") if isinstance(found, dict) else ""
            raise LoginFailed("provider_refused", "the provider did not accept the login", str(why)[:100])
        if answer.status_code != 200 or not isinstance(found, dict):
            raise ProviderUnavailable(
                "the identity provider does not answer",
                f"status {answer.status_code} at {urlsplit(url).netloc}",
            )
        return found

    def _seal(self, flow: Mapping[str, Any]) -> str:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(12)
        sealed = AESGCM(self._derive_keys(PURPOSE)[0]).encrypt(nonce, json.dumps(flow).encode(), PURPOSE)
        return base64.urlsafe_b64encode(nonce + sealed).decode().rstrip("=")

    def _open(self, sealed: str | None) -> dict[str, Any] | None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            given = _decode(sealed or "")
        except ValueError:
            return None
        for key in self._derive_keys(PURPOSE):
            try:
                return json.loads(AESGCM(key).decrypt(given[:12], given[12:], PURPOSE))
            except (InvalidTag, ValueError):
                continue
        return None


def _check(settings: Settings) -> None:
    """Refuse settings with which no login could work. Raises :class:`Invalid`."""
    try:
        import authlib  # noqa: F401
    except ModuleNotFoundError:
        raise Invalid(
            "logins by an identity provider are not installed",
            "there is no module authlib",
            extras.install_command("oidc"),
        ) from None
    if not settings.oidc_client_id:
        raise Invalid(
            "wrong settings", "oidc_issuer is set, and oidc_client_id is not", "set FUNCTORY_OIDC_CLIENT_ID"
        )
    if not settings.oidc_roles:
        raise Invalid(
            "wrong settings",
            "oidc_issuer is set, and oidc_roles is empty, so no user is let in",
            """FUNCTORY_OIDC_ROLES='{"admins": "admin"}'""",
        )
    if not _is_safe(settings.oidc_issuer or ""):
        raise Invalid(
            "wrong settings", "oidc_issuer is not https", "only a provider on this machine may be http"
        )


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and callers.is_loopback(parts.hostname or ""))


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
