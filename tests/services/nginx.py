"""A private nginx with TLS: the file of ``deploy/nginx``, before a server on this machine."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.services.port import free_port
from tests.services.server import NotReady, Server, environment_without
from tests.support.patience import patient

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx" / "functory.conf"
NAME = "functory.example.com"
# What Debian's nginx.conf has around the files of conf.d; all folders are the test's.
AROUND = """daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/functory.conf;
}}
"""


class Nginx(Server):
    """nginx on 127.0.0.1 only. ``behind`` is the port of the server; ``certificate`` is what clients trust."""

    title = "nginx"
    account = "www-data"

    def __init__(self, programs: Mapping[str, Path]) -> None:
        """Programs as in `Server`."""
        super().__init__(programs)
        self.plain_port = free_port()
        self.behind = 0

    def prepare(self) -> None:
        """Write the certificate, and the configuration with the test's ports and files."""
        key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self.write("cert.pem", _certificate(key))
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        changes = {
            "listen 80;": f"listen 127.0.0.1:{self.plain_port};",
            "listen 443 ssl": f"listen 127.0.0.1:{self.port} ssl",
            "/etc/ssl/certs/functory.pem": str(self.certificate),
            "/etc/ssl/private/functory.key": str(self.write("cert.key", private.decode())),
            "http://127.0.0.1:7400": f"http://127.0.0.1:{self.behind}",
        }
        text = CONFIGURATION.read_text()
        for there, here in changes.items():
            assert text.count(there) == 1, there
            text = text.replace(there, here)
        self.write("functory.conf", text)
        self._file = self.write("nginx.conf", AROUND.format(folder=self.folder))

    def launch(self) -> None:
        """Start it in the foreground."""
        self.spawn([self.programs["nginx"], "-c", self._file, "-e", "stderr"], environment_without())

    def is_ours(self) -> bool:
        """Compare the certificate of the server that answers with ours."""
        try:
            found = ssl.get_server_certificate(("127.0.0.1", self.port), timeout=patient(5))
        except OSError as error:
            raise NotReady(str(error)) from error
        return found.strip() == self.certificate.read_text().strip()

    @property
    def url(self) -> str:
        """The address at which users call the server."""
        return f"https://{NAME}:{self.port}"


def _certificate(key: ec.EllipticCurvePrivateKey) -> str:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - day,
        not_valid_after=now + day,
    ).add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
