"""A small IMAP server for tests: TLS, one mailbox, and the part of RFC 9051 that a reader of an inbox needs."""

import asyncio
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USER, PASSWORD = "ada", 'pass "word\\'


class Imap:
    """The server: `emails` by UID, `epoch` is UIDVALIDITY; `drop` ends every connection at its next command."""

    def __init__(self, folder: Path) -> None:
        self.emails: dict[int, bytes] = {}
        self.epoch = 1
        self.logins = 0
        self.fetched: list[int] = []
        self.drop = False
        self.port = 0
        self.certificate = folder / "imap.pem"
        self._make_certificate()

    def deliver(self, subject: str, text: str = "hello") -> int:
        """Add a new email. Returns its UID."""
        raw = f"From: bob@example.org\r\nTo: ada@example.org\r\nSubject: {subject}\r\n\r\n{text}\r\n"
        return self.deliver_raw(raw.encode())

    def deliver_raw(self, raw: bytes) -> int:
        uid = max(self.emails, default=0) + 1
        self.emails[uid] = raw
        return uid

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the commands of one connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            writer.write(b"* OK ready\r\n")
            user = False
            while line := await reader.readline():
                if self.drop:
                    break
                tag, _, command = line.decode().strip().partition(" ")
                verb, _, rest = command.partition(" ")
                verb = verb.upper()
                answer, lines = "OK done", []
                if verb == "CAPABILITY":
                    lines = [b"* CAPABILITY IMAP4rev1"]
                elif verb == "LOGIN":
                    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
                    user = rest == f'{USER} "{quoted}"'
                    self.logins += user
                    answer = "OK in" if user else "NO [AUTHENTICATIONFAILED] wrong"
                elif verb == "LOGOUT":
                    lines = [b"* BYE"]
                elif not user:
                    answer = "BAD log in first"
                elif verb in ("SELECT", "EXAMINE"):
                    if rest == '"INBOX"':
                        lines = [
                            f"* {len(self.emails)} EXISTS".encode(),
                            f"* OK [UIDVALIDITY {self.epoch}]".encode(),
                        ]
                        answer = "OK [READ-ONLY] selected"
                    else:
                        answer = "NO no such mailbox"
                elif found := re.fullmatch(r"UID SEARCH UID (\d+):\*", command):
                    last = max(self.emails, default=0)
                    low, high = sorted((int(found[1]), last))
                    uids = [str(uid) for uid in sorted(self.emails) if low <= uid <= high]
                    lines = [" ".join(["* SEARCH", *uids]).encode()]
                elif found := re.fullmatch(r"UID FETCH (\d+) \(BODY\.PEEK\[\]<0\.(\d+)>\)", command):
                    uid = int(found[1])
                    if uid in self.emails:
                        self.fetched.append(uid)
                        raw = self.emails[uid][: int(found[2])]
                        lines = [f"* 1 FETCH (UID {uid} BODY[]<0> {{{len(raw)}}}\r\n".encode() + raw + b")"]
                else:
                    answer = "BAD unknown"
                writer.write(b"".join(one + b"\r\n" for one in lines) + f"{tag} {answer}\r\n".encode())
                await writer.drain()
                if verb == "LOGOUT":
                    break
        writer.close()

    def _make_certificate(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "imap for tests")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=2))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
            .sign(key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.certificate.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))


@contextmanager
def serving(folder: Path) -> Iterator[Imap]:
    """Serve on a free port of 127.0.0.1, in a thread."""
    imap = Imap(folder)
    loop = asyncio.new_event_loop()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(imap.certificate)
    server = loop.run_until_complete(asyncio.start_server(imap.serve, "127.0.0.1", 0, ssl=context))
    imap.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, name="imap")
    thread.start()
    try:
        yield imap
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()
