"""Attacks that reach the network, or other processes through sockets."""

from __future__ import annotations

import os
import socket

from tests.attacks.case import STOPPED, SUCCEEDS, attack
from tests.attacks.prelude import Any, Tries, connect, connect_politely, syscall


@attack("A17", "TCP to a listener of the worker", without=SUCCEEDS, trace="a connection to TCP")
def loopback_tcp(d: dict[str, Any]) -> Any:
    tries = Tries()
    tries.attempt("127.0.0.1", connect, socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", d["port"]))
    tries.attempt("mapped", connect, socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:127.0.0.1", d["port"]))
    tries.attempt("UDP", connect, socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", d["port"]))
    tries.attempt("politely", connect_politely, "127.0.0.1", d["port"])
    tries.attempt("by name", connect_politely, "localhost", d["port"])
    return tries.verdict()


@attack("A18", "The metadata service of a cloud", without="it would ask the network that this machine is in")
def metadata_service(d: dict[str, Any]) -> Any:
    tries = Tries()
    for address in ("169.254.169.254", "100.100.100.200"):
        tries.attempt(address, connect, socket.AF_INET, socket.SOCK_STREAM, (address, 80), 0.3)
    tries.attempt("politely", connect_politely, "169.254.169.254", 80)
    tries.attempt("fd00:ec2::254", connect, socket.AF_INET6, socket.SOCK_STREAM, ("fd00:ec2::254", 80), 0.3)
    return tries.verdict()


@attack("A19", "A unix socket by its path", without=SUCCEEDS, trace="a connection to a unix socket")
def unix_socket(d: dict[str, Any]) -> Any:
    tries = Tries()
    tries.attempt("path", connect, socket.AF_UNIX, socket.SOCK_STREAM, d["unix"])
    return tries.verdict()


@attack(
    "A20", "A unix socket by its abstract name", without=SUCCEEDS, trace="a connection to an abstract socket"
)
def abstract_socket(d: dict[str, Any]) -> Any:
    tries = Tries()
    tries.attempt("name", connect, socket.AF_UNIX, socket.SOCK_STREAM, "\0" + d["abstract"])
    return tries.verdict()


@attack(
    "A103",
    "A pair of datagram sockets, one of which is turned to somebody else's address",
    without=SUCCEEDS,
    trace="a datagram",
)
def redirected_pair(d: dict[str, Any]) -> Any:
    tries = Tries()

    def turn(way: str, address: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with ours, theirs:
            if way == "connect":
                ours.connect(address)
                ours.send(b"attack")
            elif way == "sendto":
                ours.sendto(b"attack", address)
            else:
                ours.sendmsg([b"attack"], [], 0, address)

    for way in ("connect", "sendto", "sendmsg"):
        tries.attempt(f"{way} path", turn, way, d["datagram"])
        tries.attempt(f"{way} name", turn, way, "\0" + d["abstract"] + "-datagram")
    return tries.verdict()


@attack("A104", "Giving a socket a name under which two executions could meet", without=SUCCEEDS)
def named_socket(d: dict[str, Any]) -> Any:
    tries = Tries()

    def name(kind: int, address: str, listen: bool) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        with ours, theirs:
            ours.bind(address)
            if listen:
                ours.listen()

    tries.attempt("datagram", name, socket.SOCK_DGRAM, "\0" + d["mark"], False)
    tries.attempt("datagram at a path", name, socket.SOCK_DGRAM, "meeting", False)
    tries.attempt("listening", name, socket.SOCK_STREAM, "\0" + d["mark"], True)
    tries.attempt("listening in order", name, socket.SOCK_SEQPACKET, "\0" + d["mark"], True)
    return tries.verdict()


@attack("A21", "Every other family of sockets", without=SUCCEEDS)
def other_families(d: dict[str, Any]) -> Any:
    tries = Tries()
    for family in range(46):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            made = tries.attempt(f"{family}/{kind.name}", syscall, "socket", family, kind, 0)
            if made is not None:
                os.close(made)
    tries.how = {str(number): word for number, word in enumerate(sorted(set(tries.how.values())))}
    return tries.verdict()


@attack("A21b", "Pairs of sockets of other families", without=STOPPED)
def other_pairs(d: dict[str, Any]) -> Any:
    tries = Tries()
    for family in set(range(46)) - {socket.AF_UNIX}:
        made = tries.attempt(f"{family}", socket.socketpair, family, socket.SOCK_STREAM)
        if made is not None:
            for each in made:
                each.close()
    return tries.verdict()
