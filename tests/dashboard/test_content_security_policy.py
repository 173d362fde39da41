"""The browser refuses scripts and styles of a page's own making."""

from __future__ import annotations

from tests.support.dashboard import Deployment, Screen


def test_pages_keep_a_strict_policy(screen: Screen, deployment: Deployment) -> None:
    answer = screen.page.goto(f"{deployment.url}/executions")
    assert answer is not None
    given = answer.headers["content-security-policy"]
    policy: dict[str, str] = {}
    for part in given.split(";"):
        directive, _, value = part.strip().partition(" ")
        policy[directive] = value
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in given
    # The browser enforces it: a script and a style of the page's own making do nothing.
    page = screen.page
    screen.expected = ["Content Security Policy", "Trusted Type", "TrustedScript"]
    page.evaluate("document.body.setAttribute('style', 'opacity: 0.5')")
    page.evaluate(
        "() => { const script = document.createElement('script');"
        " try { script.textContent = 'window.attacked = 1' } catch {} document.body.append(script) }"
    )
    assert page.evaluate("window.attacked") is None
    assert page.evaluate("getComputedStyle(document.body).opacity") == "1"
