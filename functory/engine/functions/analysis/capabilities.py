"""What well-known names reach: processes, the network, files, machine code. Tables, read by
``engine.functions.analysis.checks``.

A longer name goes before a shorter one, so that ``socket`` may be the network and ``socket.gethostname`` nothing.
Not complete and not meant to be: the sandbox keeps the boundary, these tables only explain early.
"""

from __future__ import annotations

from collections.abc import Iterable


def _words(text: str, below: str = "") -> frozenset[str]:
    return frozenset(below + name for name in text.split())


def _all(kind: str, names: str, *, below: str = "") -> dict[str, str]:
    return dict.fromkeys(_words(names, below), kind)


HARMLESS = ""

CAPABILITIES: dict[str, str] = {
    **_all("exec", "exec eval compile", below="builtins."),
    **_all("exec", "runpy code.InteractiveInterpreter code.InteractiveConsole code.interact types.CodeType"),
    **_all("exec", "types.FunctionType"),
    **_all(
        "dynamic_import",
        "builtins.__import__ importlib zipimport pkgutil.resolve_name sys.path sys.meta_path",
    ),
    **_all("dynamic_import", "sys.path_hooks sys.modules site.addsitedir"),
    # Versions and data files of installed packages are read, nothing is imported.
    **_all(HARMLESS, "importlib.metadata importlib.resources importlib.reload importlib.util.find_spec"),
    **_all(
        "dunder",
        "sys._getframe sys._current_frames inspect.currentframe inspect.stack inspect.getouterframes",
    ),
    **_all("dunder", "inspect.trace gc.get_objects gc.get_referrers gc.get_referents builtins.__dict__"),
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
    **_all("unpickling", "load loads Unpickler", below="pickle."),
    **_all(
        "unpickling", "dill.load dill.loads cloudpickle.load cloudpickle.loads marshal.load marshal.loads"
    ),
    **_all("unpickling", "shelve.open shelve.Shelf joblib.load pandas.read_pickle jsonpickle.decode"),
    **_all("unpickling", "yaml.unsafe_load yaml.unsafe_load_all yaml.UnsafeLoader yaml.Loader"),
    **_all("ctypes", "ctypes cffi mmap.PROT_EXEC"),
    **_all(HARMLESS, "ctypes.util"),
}

# Calls that keep the event loop waiting. Sync clients of httpx; `functory.acall` is the other `call`.
BLOCKING = (
    _words("time.sleep urllib.request.urlopen socket.create_connection socket.getaddrinfo subprocess.run")
    | _words(
        "subprocess.call subprocess.check_call subprocess.check_output os.system os.waitpid builtins.input"
    )
    | _words("functory.call functory.gather")
    | _words("get post put patch delete head options request", below="requests.")
    | _words("get post put patch delete head options request", below="httpx.")
)

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

# Everybody's own scratch, and devices that the sandbox has.
ALWAYS_GRANTED_PATHS = (
    "/tmp", "/var/tmp", "/dev/shm", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",  # noqa: S108
    "/usr/share/zoneinfo",
)  # fmt: skip

# Attributes that lead from a value to its type's relatives, to frames, to the globals of other code.
INTROSPECTION_NAMES = frozenset({
    "__subclasses__", "__mro__", "__bases__", "__base__", "__globals__", "__builtins__", "__code__", "__closure__",
    "__self__", "__loader__", "__getattribute__", "__reduce__", "__reduce_ex__", "gi_frame", "gi_code", "cr_frame",
    "cr_code", "ag_frame", "ag_code", "f_globals", "f_locals", "f_builtins", "f_back", "f_code", "tb_frame",
    "func_globals", "func_code",
})  # fmt: skip

# In a format string there is no call: an `__init__` in it leads to its globals.
FORMAT_INTROSPECTION_NAMES = INTROSPECTION_NAMES | {"__init__"}

# Modules whose attributes are not to be chosen by a value.
SENSITIVE_MODULES = frozenset(
    {
        "builtins",
        "os",
        "sys",
        "importlib",
        "subprocess",
        "socket",
        "ctypes",
        "pty",
        "types",
        "functory",
        "posix",
    }
)

# Methods that change the list, dict or set that they belong to.
MUTATORS = _words(
    "append extend insert add update setdefault pop popitem remove discard clear appendleft extendleft "
    "intersection_update difference_update symmetric_difference_update sort reverse"
)

MUTABLE_TYPES = _words("list dict set bytearray", below="builtins.") | _words(
    "defaultdict deque OrderedDict Counter ChainMap", below="collections."
)

# Distributions that are imported by another name than their own.
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
    """The kind of what a dotted name reaches; empty for nothing that matters, such as ``socket.AF_INET``."""
    constant = path.rpartition(".")[2].isupper()
    while path:
        if path in CAPABILITIES:
            return (
                HARMLESS
                if constant and CAPABILITIES[path] in ("network", "subprocess")
                else CAPABILITIES[path]
            )
        path = path.rpartition(".")[0]
    return HARMLESS


def modules_of(distribution: str) -> Iterable[str]:
    """The top-level modules that a distribution most likely brings. ``distribution`` in any spelling (PEP 503)."""
    plain = "-".join(
        part for part in distribution.lower().replace("_", "-").replace(".", "-").split("-") if part
    )
    bare = plain.removeprefix("python-").removesuffix("-python").removesuffix("-binary").removesuffix("-py")
    # Namespace packages are imported by their first part: google-cloud-storage, azure-identity.
    namespace = (
        [plain.split("-")[0]] if plain.startswith(("google-", "azure-", "zope-", "backports-")) else []
    )
    return {*MODULES_OF.get(plain, ()), *(name.replace("-", "_") for name in (plain, bare)), *namespace}
