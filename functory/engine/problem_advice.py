"""What a caller over HTTP can do about a problem whose error does not say it itself.

The server sends it with each such problem. A client on the command line knows the error, and prints what the same
command prints on the machine of the server.
"""

from __future__ import annotations

_BY_STATUS = {
    400: "correct what the reason names, and send it again",
    401: "send the token as Authorization: Bearer",
    403: "ask an admin of this installation",
    404: "check the address and the name or id in it",
    405: "use a method that the header Allow names",
    408: "send the whole request at once",
    409: "read its state again, and decide by that",
    412: "read its state again, and decide by that",
    413: "send less in one request",
    415: "send a type that the reason names, without compression",
    421: "use an address that this server is known by",
    422: "correct what errors names, and send it again",
    429: "wait as long as the header Retry-After says, and send it again",
    500: "search the server's log for the value of trace, and report the defect",
    503: "send it again in some seconds; functory doctor names what is away",
    504: "look again later, or wait longer",
}


def of_status(status: int) -> str:
    """The advice for a status of HTTP from 400 on."""
    return _BY_STATUS.get(status, _BY_STATUS[400])
