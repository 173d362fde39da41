"""User code in a confined process uses its granted hosts as on a network, through the broker.

Servers listen on loopback, which the operator's list allows; names are resolved by a table.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from functory.workers.sandbox.network.connection_broker import ConnectionBroker
from tests.support.network_world import PATIENCE, Authority, Names, confined, door, started, web

pytest_plugins = ["tests.support.connection_broker"]


def test_urllib_and_http_client_fetch_from_a_granted_host(broker: ConnectionBroker) -> None:
    with web() as port:
        result = confined(
            door(broker, f"api.example.com:{port}"),
            """
            import http.client, urllib.request
            first = urllib.request.urlopen(f"http://api.example.com:{PORT}/one").read().decode()
            connection = http.client.HTTPConnection("api.example.com", PORT)
            bodies = []
            for path in ("/two", "/three"):  # over one connection that is kept
                connection.request("GET", path)
                bodies.append(connection.getresponse().read().decode())
            result = [first, *bodies]
            """,
            PORT=port,
        )
    assert result == [f"GET /{path} of api.example.com:{port}" for path in ("one", "two", "three")]
    traffic = broker.close("run")
    assert traffic.connections == 2
    assert traffic.sent > 100 and traffic.received > 100
    assert traffic.refused == [] and not traffic.exhausted and not traffic.violation


def test_tls_checks_the_certificate_against_the_name(
    broker: ConnectionBroker, names: Names, tmp_path: Path
) -> None:
    names.table["other.example.com"] = ["127.0.0.1"]
    authority = Authority(tmp_path)
    with web(authority.server("api.example.com")) as port:
        result = confined(
            door(broker, f"*.example.com:{port}"),
            """
            import asyncio, socket, ssl, urllib.error, urllib.request
            trusting = ssl.create_default_context(cafile=AUTHORITY)
            def get(name, context):
                try:
                    return urllib.request.urlopen(f"https://{name}:{PORT}/", context=context).read().decode()
                except urllib.error.URLError as error:
                    return str(error.reason)
            async def stream():
                reader, writer = await asyncio.open_connection("api.example.com", PORT, ssl=trusting)
                writer.write(b"GET /stream HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
                text = (await reader.read()).decode()
                writer.close()
                await writer.wait_closed()
                return text.splitlines()[-1]
            with socket.create_connection(("api.example.com", PORT)) as plain:
                with trusting.wrap_socket(plain, server_hostname="api.example.com") as secure:
                    subject = dict(part[0] for part in secure.getpeercert()["subject"])["commonName"]
            unconnected = trusting.wrap_socket(socket.socket(), server_hostname="api.example.com")
            unconnected.connect(("api.example.com", PORT))
            unconnected.close()
            result = {
                "right": get("api.example.com", trusting),
                "wrong name": get("other.example.com", trusting),
                "unknown authority": get("api.example.com", ssl.create_default_context()),
                "stream": asyncio.run(stream()),
                "subject": subject,
            }
            """,
            PORT=port,
            AUTHORITY=authority.path,
        )
    assert result["right"] == f"GET / of api.example.com:{port}"
    assert "certificate is not valid for 'other.example.com'" in result["wrong name"]
    assert "unable to get local issuer" in result["unknown authority"]
    assert result["stream"] == "GET /stream of x"
    assert result["subject"] == "api.example.com"


def test_requests_and_httpx_work_on_top(broker: ConnectionBroker, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with web(authority.server("api.example.com")) as port:
        result = confined(
            door(broker, f"api.example.com:{port}"),
            """
            import asyncio, ssl
            import httpx, requests
            url = f"https://api.example.com:{PORT}"
            context = ssl.create_default_context(cafile=AUTHORITY)
            async def several():
                async with httpx.AsyncClient(verify=context) as client:
                    replies = await asyncio.gather(*[client.get(f"{url}/{number}") for number in range(5)])
                    return [reply.text.split()[1] for reply in replies]
            with requests.Session() as session:
                session.verify = AUTHORITY
                session.trust_env = False
                posted = session.post(url, data=b"abc" * 100_000).content == b"cba" * 100_000
                got = session.get(url + "/kept").text
            with httpx.Client(verify=context) as client:
                sync = client.get(url + "/sync").text
            result = [posted, got.split()[1], sync.split()[1], asyncio.run(several())]
            """,
            PORT=port,
            AUTHORITY=authority.path,
        )
    assert result == [True, "/kept", "/sync", ["/0", "/1", "/2", "/3", "/4"]]


def test_sockets_look_as_programs_expect_them(broker: ConnectionBroker) -> None:
    with web() as port:
        result = confined(
            door(broker, f"api.example.com:{port}", f"127.0.0.1:{port}"),
            """
            import errno, os, select, socket
            found = socket.getaddrinfo("api.example.com", PORT, type=socket.SOCK_STREAM)
            sock = socket.socket(*found[0][:3])
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
            before = sock.getsockname()
            try:
                sock.getpeername()
            except OSError as error:
                unconnected = error.errno == errno.ENOTCONN
            sock.settimeout(5)
            number = sock.fileno()
            sock.connect(found[0][4])
            twice = sock.connect_ex(found[0][4])
            waits = os.get_blocking(sock.fileno())
            copy = sock.dup()
            sock.close()
            copy.sendall(b"GET /raw HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n")
            select.select([copy], [], [], 5)
            text = copy.makefile().read()
            literal = socket.create_connection(("127.0.0.1", PORT))
            result = {
                "family": found[0][0], "before": before, "unconnected": unconnected,
                "twice": errno.errorcode[twice], "same peer": copy.getpeername() == found[0][4],
                "local": copy.getsockname()[0], "text": text.splitlines()[-1],
                "literal": literal.getpeername()[0], "again": socket.gethostbyname("api.example.com") == found[0][4][0],
                "six": socket.getaddrinfo("api.example.com", "https", socket.AF_INET6)[0][4][:2],
                "timeout kept": copy.gettimeout(), "nothing": socket.socket().connect_ex(("api.example.com", 1)),
                "type": sock.type == socket.SOCK_STREAM, "waits": waits,
            }
            """,
            PORT=port,
        )
    assert result == {
        "family": socket.AF_INET,
        "before": ["0.0.0.0", 0],
        "unconnected": True,
        "twice": "EISCONN",
        "same peer": True,
        "local": "192.0.0.8",
        "text": "GET /raw of x",
        "literal": "127.0.0.1",
        "again": True,
        "six": ["100::1", 443],
        "timeout kept": 5.0,
        "nothing": 13,
        "type": True,
        "waits": False,
    }


def test_what_no_sandbox_has_is_refused_with_a_message(broker: ConnectionBroker) -> None:
    result = confined(
        door(broker, "*"),
        """
        import _socket, asyncio, socket
        def said(what):
            try:
                what()
            except Exception as error:
                return f"{type(error).__name__}: {error}"
        async def serve():
            await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        result = [
            said(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
            said(lambda: socket.socket(socket.AF_UNIX)),
            said(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW)),
            said(lambda: socket.create_server(("127.0.0.1", 0))),
            said(lambda: asyncio.run(serve())),
            said(lambda: socket.socket().listen()),
            said(lambda: _socket.socket()),
            said(lambda: socket.create_connection(("never.example.com", 443))),
            said(lambda: socket.getaddrinfo("", 1)),
            said(lambda: socket.socket().connect(("a.test", 99999))),
        ]
        """,
    )
    datagram, local, raw, server, aserver, listening, plain, unknown, empty, large = result
    assert "cannot open a socket of family 2 and type 2" in datagram
    assert "only TCP connections" in local and "only TCP connections" in raw
    assert "cannot bind or listen" in server and "bind or listen" in aserver
    assert "cannot listen" in listening
    assert plain == "OSError: [Errno 97] Address family not supported by protocol"
    assert unknown == "gaierror: [Errno -2] the name never.example.com leads to no address"
    assert empty.startswith("gaierror") and large.startswith("OverflowError")


def test_threads_connect_at_once_and_each_gets_its_own(broker: ConnectionBroker, names: Names) -> None:
    for number in range(8):
        names.table[f"h{number}.example.com"] = [f"127.0.0.{number + 1}"]
    with web() as port:
        result = confined(
            door(broker, f"*.example.com:{port}"),
            """
            import urllib.request
            from concurrent.futures import ThreadPoolExecutor
            def get(number):
                return urllib.request.urlopen(f"http://h{number % 8}.example.com:{PORT}/address").read().decode()
            with ThreadPoolExecutor(8) as pool:
                result = list(pool.map(get, range(64)))
            """,
            PORT=port,
        )
    assert result == [f"127.0.0.{number % 8 + 1}" for number in range(64)]
    assert broker.close("run").connections == 64


def test_one_slow_connect_keeps_no_other_waiting(broker: ConnectionBroker, names: Names) -> None:
    fast = threading.Event()

    def slow() -> list[str]:
        fast.wait(PATIENCE)
        return ["127.0.0.1"]

    names.table["slow.example.com"] = slow
    with (
        web() as port,
        started(
            door(broker, f"*.example.com:{port}"),
            """
        import threading, urllib.request
        slow = threading.Thread(target=lambda: print(urllib.request.urlopen(f"http://slow.example.com:{PORT}/slow").read()))
        slow.start()
        print(urllib.request.urlopen(f"http://api.example.com:{PORT}/fast").read(), flush=True)
        slow.join()
        """,
            PORT=port,
        ) as process,
    ):
        assert process.stdout is not None
        assert "/fast" in process.stdout.readline()
        fast.set()
        assert "/slow" in process.stdout.readline()


def test_a_forked_process_has_no_network_and_takes_no_answer(broker: ConnectionBroker) -> None:
    with web() as port:
        result = confined(
            door(broker, f"api.example.com:{port}"),
            """
            import os, socket, urllib.request
            ours, theirs = os.pipe()
            if os.fork() == 0:
                try:
                    socket.create_connection(("api.example.com", PORT))
                except PermissionError as error:
                    os.write(theirs, str(error).encode())
                os._exit(0)
            os.close(theirs)
            refused = os.read(ours, 1000).decode()
            result = [refused, urllib.request.urlopen(f"http://api.example.com:{PORT}/").read().decode()]
            """,
            PORT=port,
            FORKS=True,
        )
    refused, fetched = result
    assert "no host is granted to it" in refused
    assert fetched == f"GET / of api.example.com:{port}"
