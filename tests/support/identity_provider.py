"""An OpenID Connect provider on a loopback port, which lies on demand."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse
from joserfc import jwt
from joserfc.jwk import RSAKey

from functory.api.server import Server

CLIENT, SECRET = "functory-test", "secret of the client"


class Provider:
    """``user`` has the claims of the one who is logged in there; ``claims`` and ``sign`` change the next ID token.

    ``asked_at`` is when it asked for the password: an hour ago, until it gets ``prompt=login``. With
    ``asks`` False it does not.
    """

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.foreign_key = RSAKey.generate_key(2048, {"kid": "one"})
        self.url = ""
        self.user: dict[str, Any] = {"sub": "248289761001", "preferred_username": "ada", "groups": ["admins"]}
        self.claims: dict[str, Any] = {}
        self.sign = self.signed
        self.asks = True
        self.asked_at = int(time.time()) - 3600
        self.codes: dict[str, dict[str, str]] = {}
        self.app = FastAPI()
        self.app.get("/.well-known/openid-configuration")(self._metadata)
        self.app.get("/authorize")(self._authorize)
        self.app.post("/token")(self._token)
        self.app.get("/jwks")(self._jwks)

    def signed(self, claims: dict[str, Any]) -> str:
        """As a provider signs."""
        return jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.key)

    def signed_by_another(self, claims: dict[str, Any]) -> str:
        """With a key that is not the provider's, under the name of one that is."""
        return jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.foreign_key)

    def signed_with_the_public_key(self, claims: dict[str, Any]) -> str:
        """HMAC with the text of the public key, which everybody knows."""
        _, body, _ = self.signed(claims).split(".")
        head = b'{"alg":"HS256","kid":"one"}'
        text = f"{_encoded(head)}.{body}"
        return f"{text}.{_encoded(hmac.digest(self.key.as_pem(private=False), text.encode(), 'sha256'))}"

    def unsigned(self, claims: dict[str, Any]) -> str:
        """The algorithm "none" (RFC 7519, section 6)."""
        _, body, _ = self.signed(claims).split(".")
        none = b'{"alg":"none"}'
        return f"{_encoded(none)}.{body}."

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
        }

    def _authorize(self, request: Request) -> RedirectResponse:
        query = dict(request.query_params)
        assert query["response_type"] == "code" and query["code_challenge_method"] == "S256"
        if query.get("prompt") == "login" and query.get("max_age") == "0" and self.asks:
            self.asked_at = int(time.time())
        code = f"code{len(self.codes)}"
        self.codes[code] = query
        answer = urlencode({"code": code, "state": query["state"], "session_state": "x"})
        return RedirectResponse(f"{query['redirect_uri']}?{answer}", 303)

    async def _token(self, request: Request) -> JSONResponse:
        form = dict(parse_qsl((await request.body()).decode()))
        asked = self.codes.pop(str(form.get("code")), None)
        basic = base64.b64encode(f"{CLIENT}:{SECRET.replace(' ', '+')}".encode()).decode()
        plain = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        verifier = str(form.get("code_verifier", "")).encode()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).decode().rstrip("=")
        known = request.headers.get("authorization") in (f"Basic {basic}", f"Basic {plain}")
        if asked is None or not known or challenge != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        if form.get("redirect_uri") != asked["redirect_uri"]:
            return JSONResponse({"error": "invalid_request"}, 400)
        now = int(time.time())
        claims = {
            "iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"],
            "auth_time": self.asked_at,
        } | self.user | self.claims  # fmt: skip
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": self.sign(claims)})

    def _jwks(self) -> dict[str, Any]:
        return {"keys": [self.key.as_dict(private=False)]}


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@contextlib.contextmanager
def provider() -> Iterator[Provider]:
    """A provider that answers."""
    made = Provider()
    server = Server(made.app, "127.0.0.1", 0)
    server.start()
    made.url = server.url
    try:
        yield made
    finally:
        server.stop(5)


def authorize(address: str) -> str:
    """Be the browser at the provider: return the address that it sends the browser back to."""
    answer = httpx.get(address, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]
