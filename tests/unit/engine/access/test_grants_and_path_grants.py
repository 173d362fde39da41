"""Sets of grants: what is read, what covers what, and values that are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.access import grants, path_grants
from functory.engine.access.grants import KINDS, NOTHING, Grants
from functory.engine.access.path_grants import ProtectedPaths
from functory.engine.errors import Invalid, Refused
from functory.engine.functions import declaration
from functory.engine.settings import Settings

EVERYTHING = Grants(
    secrets=("API_KEY", "TOKEN"),
    hosts=("*.example.com", "api.example.org:8443"),
    read=("/data/in",),
    write=("/data/out",),
    permissions=("functions:read", "functions:write"),
    subprocess=True,
)

ITEMS = st.sets(
    st.one_of(
        st.tuples(st.just("secret"), st.sampled_from(["A", "B", "C"])),
        st.tuples(
            st.just("host"), st.sampled_from(["a.example.com", "*.example.com", "*", "9.9.9.9", "x.y:81"])
        ),
        st.tuples(st.sampled_from(["read", "write"]), st.sampled_from(["/a", "/a/b", "/ab", "/c/d"])),
        st.tuples(st.just("permission"), st.sampled_from(grants.PERMISSIONS)),
        st.just(("subprocess", "")),
    )
)


def test_a_set_is_its_pairs_and_its_json() -> None:
    assert Grants.from_items(EVERYTHING.items()) == EVERYTHING
    assert Grants.from_json(EVERYTHING.as_json()) == EVERYTHING
    assert Grants.from_json(None) == Grants.from_json({}) == Grants.from_items([]) == NOTHING
    assert NOTHING.as_json() == {}
    assert not NOTHING
    assert list(Grants(hosts=("a.example.com",), subprocess=True)) == ["host a.example.com", "subprocess"]


@given(ITEMS, ITEMS)
def test_a_union_covers_both_and_what_is_missing_makes_it_whole(first, second) -> None:
    one, two = Grants.from_items(first), Grants.from_items(second)
    assert (one | two).covers(one)
    assert (one | two).covers(two)
    assert (one | one.missing(two)).covers(two)
    assert one.covers(one)
    assert one.covers(NOTHING)
    assert set(one.missing(two).items()) <= set(two.items())
    assert (one | two) == (two | one) == Grants.from_items(first | second)


@given(ITEMS, ITEMS, ITEMS)
def test_covering_is_transitive(first, second, third) -> None:
    one, two, three = Grants.from_items(first), Grants.from_items(second), Grants.from_items(third)
    if one.covers(two) and two.covers(three):
        assert one.covers(three)


@pytest.mark.parametrize(
    ("has", "wanted", "covered"),
    [
        (Grants(hosts=("*.example.com",)), Grants(hosts=("api.example.com",)), True),
        (Grants(hosts=("*.example.com",)), Grants(hosts=("*.api.example.com",)), True),
        (Grants(hosts=("*.example.com",)), Grants(hosts=("example.com",)), False),
        (Grants(hosts=("*.example.com",)), Grants(hosts=("badexample.com",)), False),
        (Grants(hosts=("api.example.com",)), Grants(hosts=("*.example.com",)), False),
        (Grants(hosts=("api.example.com",)), Grants(hosts=("api.example.com:8443",)), False),
        (Grants(hosts=("api.example.com",)), Grants(hosts=("api.example.com:443",)), True),
        (Grants(hosts=("api.example.com:443",)), Grants(hosts=("api.example.com",)), False),
        (Grants(hosts=("*",)), Grants(hosts=("9.9.9.9",)), True),
        (Grants(hosts=("*",)), Grants(hosts=("10.0.0.7",)), False),
        (Grants(hosts=("*",)), Grants(hosts=("127.0.0.1",)), False),
        (Grants(hosts=("*",)), Grants(hosts=("db.internal",)), False),
        (Grants(hosts=("*.example.com",)), Grants(hosts=("*",)), False),
        (Grants(read=("/data",)), Grants(read=("/data/in/2026",)), True),
        (Grants(read=("/data",)), Grants(read=("/database",)), False),
        (Grants(read=("/data/in",)), Grants(read=("/data",)), False),
        (Grants(read=("/data",)), Grants(write=("/data",)), False),
        (Grants(write=("/data",)), Grants(read=("/data/in",)), True),
        (Grants(subprocess=True), Grants(permissions=("functions:write",)), False),
        (Grants(permissions=("functions:write",)), Grants(permissions=("functions:read",)), False),
        (Grants(secrets=("API_KEY",)), Grants(secrets=("API",)), False),
        (NOTHING, Grants(subprocess=True), False),
    ],
    ids=str,
)
def test_what_covers_what(has, wanted, covered) -> None:
    assert has.covers(wanted) is covered
    assert has.missing(wanted) == (NOTHING if covered else wanted)


def test_kinds_of_authors_follow_the_mode_and_the_setting() -> None:
    assert grants.author_grant_kinds(Settings()) == set(KINDS)
    served = Settings(broker_url="redis://127.0.0.1/0")
    assert grants.author_grant_kinds(served) == {"secret", "host", "model", "permission"}
    assert grants.author_grant_kinds(Settings(author_grants=[])) == set()
    assert grants.author_grant_kinds(Settings(author_grants=["read"])) == {"read"}


def test_what_is_declared_is_in_effect_pending_or_widened() -> None:
    declared = EVERYTHING
    has = grants.effective(declared, grants.SERVER_AUTHOR_GRANTS)
    assert (has.read, has.write, has.subprocess) == ((), (), False)
    assert (has.secrets, has.hosts, has.permissions) == (
        declared.secrets,
        declared.hosts,
        declared.permissions,
    )
    waiting = grants.pending(declared, grants.SERVER_AUTHOR_GRANTS, Grants(subprocess=True))
    assert waiting == Grants(read=("/data/in",), write=("/data/out",))
    assert grants.pending(declared, KINDS) == NOTHING
    warned = grants.warnings("load", 3, waiting)
    assert warned[0].endswith('functory grant allow load@3 read /data/in --reason "…"')


def test_a_declaration_is_read_into_one_form() -> None:
    first = grants.parse_declared(
        {
            "hosts": ["API.example.com.", "api.example.com", "*.Example.org"],
            "files": {"read": ["/data/in/", "/data//in"], "write": []},
            "subprocess": True,
        }
    )
    assert first == {
        "hosts": ["*.example.org", "api.example.com"],
        "files": {"read": ["/data/in"]},
        "subprocess": True,
    }
    assert grants.parse_declared({"hosts": None, "files": None, "subprocess": False}) == {
        "hosts": [],
        "files": {},
        "subprocess": False,
    }


@pytest.mark.parametrize(
    "declared",
    [
        {"hosts": "api.example.com"},
        {"hosts": b"api.example.com"},
        {"hosts": {"api.example.com": 1}},
        {"hosts": [None]},
        {"hosts": [5]},
        {"hosts": 5},
        {"hosts": ["http://api.example.com"]},
        {"hosts": [f"a{n}.example.com" for n in range(101)]},
        {"hosts": ["a" * 100_000]},
        {"hosts": ["a\x00.example.com"]},
        {"files": ["/data"]},
        {"files": "/data"},
        {"files": {"read": "/data"}},
        {"files": {"read": ["/data"], "execute": ["/bin"]}},
        {"files": {"read": [["/data"]]}},
        {"files": {"read": [None]}},
        {"files": {"read": [f"/data/{n}" for n in range(101)]}},
        {"files": {5: ["/data"]}},
        {"subprocess": "yes"},
        {"subprocess": 1},
        {"subprocess": None},
    ],
    ids=lambda declared: str(declared)[:60],
)
def test_a_wrong_declaration_is_refused(declared) -> None:
    with pytest.raises(Invalid) as caught:
        declaration.parse(declared)
    assert len(str(caught.value)) < 1000


BAD_PATHS = [
    "", "data", "./data", "~/data", "/", "//", "/.", "/data/..", "/data/../etc", "/..", "/data/\x00", "/data/\n",
    "/data/\x1b[2J", "/data/\ud800", "/" + "a" * 1025, "/" + "ä" * 600, "/proc", "/proc/self/environ", "/sys/fs",
    "/dev", "/dev/../dev/sda", "/run/docker.sock", "/var/run/docker.sock", "/var", "/etc", "/etc/shadow",
    "/etc//shadow", "//etc/shadow", "/etc/ssh/key", "/boot", "/root", "/home", "/home/ada", "/home/ada/.ssh",
    "/home/ada/.ssh/id_rsa", "/root/.aws/credentials",
]  # fmt: skip


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize("path", BAD_PATHS, ids=repr)
def test_paths_that_cannot_be_granted(mode, path) -> None:
    with pytest.raises(Invalid) as caught:
        path_grants.check(mode, path)
    assert caught.value.why
    assert len(str(caught.value)) < 1500
    with pytest.raises(Invalid):
        declaration.parse({"files": {mode: [path]}})


@pytest.mark.parametrize(
    "path", ["/usr/lib/python3/x", "/etc/hosts", "/bin/sh", "/lib64/x", "/var/spool/cron/crontabs"]
)
def test_what_may_be_read_but_never_written(path) -> None:
    assert path_grants.check("read", path) == path
    with pytest.raises(Invalid, match=f"write {path} cannot be granted"):
        path_grants.check("write", path)


def test_a_path_in_its_plain_form() -> None:
    for text in ("/data/in", "/data/in/", "/data//in", "/data/./in/.", "//data/in", "///data/in"):
        assert path_grants.check("read", text) == "/data/in"
    for text in ("/data/ключ", "/data/a b", "/data/..x", "/procedures", "/data/proc", "/home/ada/project"):
        assert path_grants.check("write", text) == text


@given(st.text(max_size=60).map(lambda text: "/" + text))
def test_a_path_that_is_taken_is_plain_and_stays_so(path) -> None:
    try:
        plain = path_grants.check("read", path)
    except Invalid:
        return
    assert path_grants.check("read", plain) == plain
    assert plain.startswith("/")
    assert not set(plain.split("/")[1:]) & {"", ".", ".."}


@pytest.fixture
def places(tmp_path, monkeypatch):
    monkeypatch.delenv("FUNCTORY_CONFIG", raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    return ProtectedPaths(
        Settings(home=tmp_path / "home", database_url=f"sqlite:///{tmp_path}/db/functory.db")
    )


@pytest.mark.parametrize(
    "where", ["", "home", "home/secret.key", "db", "db/functory.db", "data", "data/functory.toml"]
)
def test_functorys_own_files_are_kept(places, tmp_path, where) -> None:
    path = str(tmp_path / where).rstrip("/")
    with pytest.raises(Refused, match="cannot be granted"):
        places.check("read", path)


def test_the_settings_file_of_a_folder_above_is_kept(places, tmp_path, monkeypatch) -> None:
    (tmp_path / "functory.toml").touch()
    (tmp_path / "home" / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "home" / "deep")
    with pytest.raises(Refused, match="cannot be granted"):
        ProtectedPaths(Settings(home=tmp_path / "data")).check("read", str(tmp_path / "functory.toml"))


def test_other_files_are_not_kept(places, tmp_path) -> None:
    for where in ("data/in", "home2", "dbs", "other"):
        places.check("read", str(tmp_path / where))
        places.check("write", str(tmp_path / where))


def test_a_link_is_what_it_leads_to(places, tmp_path) -> None:
    for name, target in (("own", "home"), ("key", "home/secret.key"), ("above", ".")):
        (tmp_path / "data" / name).symlink_to(tmp_path / target)
        with pytest.raises(Refused, match="it leads to"):
            places.check("read", str(tmp_path / "data" / name))
    (tmp_path / "data" / "kernel").symlink_to("/proc")
    with pytest.raises(Refused, match="it leads to /proc"):
        places.check("read", str(tmp_path / "data" / "kernel" / "self"))
    (tmp_path / "data" / "again").symlink_to(tmp_path / "data" / "in")
    places.check("read", str(tmp_path / "data" / "again"))


def test_a_linked_home_is_kept_under_both_names(tmp_path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    places = ProtectedPaths(Settings(home=tmp_path / "linked"))
    for name in ("real", "linked", "real/secret.key", "linked/secret.key"):
        with pytest.raises(Refused):
            places.check("read", str(tmp_path / name))


def test_the_code_that_runs_may_be_read_but_not_written(places) -> None:
    code = path_grants.__file__
    places.check("read", code)
    with pytest.raises(Refused, match="Functory's own"):
        places.check("write", code)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("secret", ""),
        ("secret", "a b"),
        ("secret", "A\x00"),
        ("secret", "ключ"),
        ("secret", "x" * 300),
        ("secret", 5),
        ("host", ""),
        ("host", "http://a.example.com"),
        ("host", "a" * 100_000),
        ("host", "127.1"),
        ("read", "data"),
        ("read", "/data/../etc/passwd"),
        ("write", "/etc/hosts"),
        ("permission", "functions:*"),
        ("permission", ""),
        ("subprocess", "yes"),
        ("root", "yes"),
        ("", ""),
        ("x" * 100_000, ""),
        (None, "x"),
        ([], "x"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_wrong_value_is_refused(kind, value) -> None:
    with pytest.raises(Invalid) as caught:
        grants.normalize_value(kind, value)
    assert len(str(caught.value)) < 1500


def test_the_file_with_the_keys_of_secrets_cannot_be_granted(tmp_path) -> None:
    keys = tmp_path / "keys" / "ring"
    protected = ProtectedPaths(Settings(home=tmp_path / "home", secret_key_file=keys))
    for path in (keys, keys.parent):
        with pytest.raises(Refused, match="Functory's own"):
            protected.check("read", str(path))
    protected.check("read", str(tmp_path / "elsewhere"))
