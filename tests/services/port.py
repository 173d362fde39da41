"""Ports for test servers: private, and still free when a killed server starts again."""

import random
import socket

# Below 32768 the kernel hands out no port for outgoing connections (net.ipv4.ip_local_port_range), so
# no process can take the port of a server by accident while a test has it stopped. Above 20000 few services live.
FIRST, LAST = 20_000, 31_999

# A name in the abstract namespace (unix(7)) for each port that is in use: other test runs on this machine see it
# until this process ends in any way.
_handed_out: dict[int, socket.socket] = {}


def free_port() -> int:
    """Return a free TCP port of 127.0.0.1 that no process of tests has got before."""
    for port in random.sample(range(FIRST, LAST + 1), k=200):
        if port in _handed_out:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        reserved = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            reserved.bind(f"\0functory-test-port-{port}")
        except OSError:
            reserved.close()
            continue
        _handed_out[port] = reserved
        return port
    raise RuntimeError(f"200 ports between {FIRST} and {LAST} were tried and none is free")
