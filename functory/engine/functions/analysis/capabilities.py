"""The capabilities of well-known names: other processes, the network, files. Tables for
``functory.engine.functions.analysis.checks``.

The longest name that matches decides: ``socket`` is the network, ``socket.gethostname`` is harmless. The tables are
not complete: the sandbox is the boundary, and they only explain a refusal before it happens.
"""

from __future__ import annotations

from collections.abc import Iterable


def _words(text: str, below: str = "") -> frozenset[str]:
    return frozenset(below + name for name in text.split())


def _all(kind: str, names: str, *, below: str = "") -> dict[str, str]:
    return dict.fromkeys(_words(names, below), kind)


HARMLESS = ""

CAPABILITIES: dict[str, str] = {
    **_all("subprocess", "subprocess pty multiprocessing concurrent.futures.ProcessPoolExecutor"),
    **_all(
        "subprocess", "asyncio.create_subprocess_exec asyncio.create_subprocess_shell pexpect sh psutil.Popen"
    ),
    **_all(
        "subprocess",
        "system popen fork forkpty execl execle execlp execlpe execv execve execvp execvpe posix_spawn "
        "posix_spawnp spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe",
        below="os.",
    ),
    **_all(HARMLESS, "SubprocessError CalledProcessError TimeoutExpired", below="subprocess."),
    **_all(
        HARMLESS, "cpu_count dummy pool.ThreadPool TimeoutError current_process", below="multiprocessing."
    ),
    **_all(
        "network", "socket socketserver urllib.request http.client http.server ftplib smtplib poplib imaplib"
    ),
    **_all("network", "nntplib telnetlib xmlrpc asyncio.open_connection asyncio.start_server"),
    **_all(
        "network", "asyncio.open_unix_connection requests httpx aiohttp urllib3 httplib2 pycurl websockets"
    ),
    **_all(
        "network",
        "websocket paramiko asyncssh boto3 botocore aiobotocore redis psycopg psycopg2 asyncpg pymysql",
    ),
    **_all(
        "network", "MySQLdb pymongo motor pika aio_pika kafka aiokafka confluent_kafka grpc openai anthropic"
    ),
    **_all("network", "litellm selenium playwright elasticsearch google.cloud azure stripe twilio slack_sdk"),
    **_all(
        HARMLESS,
        "timeout error gaierror herror gethostname htons htonl ntohs ntohl inet_aton inet_ntoa inet_pton inet_ntop",
        below="socket.",
    ),
    **_all(HARMLESS, "urllib.request.quote urllib.request.unquote requests.exceptions requests.utils"),
}

# Calls whose first argument is the path of a file or folder.
OPENING = _words(
    "builtins.open io.open io.FileIO os.open os.listdir os.scandir os.walk os.remove os.unlink os.rename os.replace "
    "os.mkdir os.makedirs os.rmdir os.chmod os.truncate os.symlink os.link os.readlink shutil.rmtree shutil.copy "
    "shutil.copyfile shutil.copytree shutil.move glob.glob glob.iglob pathlib.Path pathlib.PosixPath codecs.open "
    "gzip.open bz2.open lzma.open zipfile.ZipFile tarfile.open sqlite3.connect pandas.read_csv pandas.read_json "
    "pandas.read_parquet pandas.read_excel numpy.load numpy.loadtxt polars.read_csv polars.read_parquet"
)

WRITING = _words(
    "os.remove os.unlink os.rename os.replace os.mkdir os.makedirs os.rmdir os.chmod os.truncate os.symlink os.link "
    "shutil.rmtree shutil.move"
)

# The private scratch folders, and the devices of every sandbox.
ALWAYS_GRANTED_PATHS = (
    "/tmp", "/var/tmp", "/dev/shm", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",  # noqa: S108
    "/usr/share/zoneinfo",
)  # fmt: skip

# Distributions whose modules have another name.
MODULES_OF = {
    "attrs": ("attr", "attrs"), "beautifulsoup4": ("bs4",), "faiss-cpu": ("faiss",), "gitpython": ("git",),
    "google-api-python-client": ("googleapiclient",), "google-re2": ("re2",), "mysqlclient": ("MySQLdb",),
    "opencv-python": ("cv2",), "opencv-python-headless": ("cv2",), "pillow": ("PIL",), "protobuf": ("google",),
    "pycryptodome": ("Crypto",), "pygithub": ("github",), "pyjwt": ("jwt",), "pymupdf": ("fitz", "pymupdf"),
    "pynacl": ("nacl",), "pyopenssl": ("OpenSSL",), "pypdf2": ("PyPDF2",), "pyserial": ("serial",), "pyusb": ("usb",),
    "python-telegram-bot": ("telegram",), "pyyaml": ("yaml",), "pyzmq": ("zmq",), "ruamel-yaml": ("ruamel",),
    "scikit-image": ("skimage",), "scikit-learn": ("sklearn",), "setuptools": ("setuptools", "pkg_resources"),
    "umap-learn": ("umap",),
}  # fmt: skip


def capability_of(path: str) -> str:
    """Return the capability of a dotted name: ``subprocess``, ``network``, or empty for a harmless one."""
    # Constants, such as socket.AF_INET.
    constant = path.rpartition(".")[2].isupper()
    while path:
        if path in CAPABILITIES:
            return HARMLESS if constant else CAPABILITIES[path]
        path = path.rpartition(".")[0]
    return HARMLESS


def modules_of(distribution: str) -> Iterable[str]:
    """Yield the likely top-level modules of a distribution, whose name may have any spelling (PEP 503)."""
    plain = "-".join(
        part for part in distribution.lower().replace("_", "-").replace(".", "-").split("-") if part
    )
    bare = plain.removeprefix("python-").removesuffix("-python").removesuffix("-binary").removesuffix("-py")
    # Namespace packages are imported by their first part: google-cloud-storage, azure-identity.
    namespace = (
        [plain.split("-")[0]] if plain.startswith(("google-", "azure-", "zope-", "backports-")) else []
    )
    return {*MODULES_OF.get(plain, ()), *(name.replace("-", "_") for name in (plain, bare)), *namespace}
