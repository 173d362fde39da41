"""Settings from the environment and functory.toml: what wins, and what a wrong one says."""

from pathlib import Path

import pytest

from functory.engine.errors import Invalid
from functory.engine.settings import Settings, load_settings
from tests.support.no_settings import forget_settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no setting from outside."""
    return forget_settings(monkeypatch, tmp_path)


def test_without_any_setting_it_runs_embedded_in_the_working_directory(folder):
    settings = load_settings()
    assert settings.embedded
    assert settings.database == f"sqlite:///{folder}/.functory/functory.db"


def test_arguments_win_over_the_environment_and_the_environment_over_the_file(folder, monkeypatch):
    (folder / "functory.toml").write_text('max_depth = 3\nroot_budget = 4\nnamespace = "shop"\n')
    monkeypatch.setenv("FUNCTORY_ROOT_BUDGET", "5")
    monkeypatch.setenv("FUNCTORY_NAMESPACE", "store")
    settings = load_settings(namespace="mine")
    assert (settings.max_depth, settings.root_budget, settings.namespace) == (3, 5, "mine")


def test_another_file_may_be_named_and_must_be_there(folder, monkeypatch):
    (folder / "other.toml").write_text("max_depth = 3\n")
    monkeypatch.setenv("FUNCTORY_CONFIG", "other.toml")
    assert load_settings().max_depth == 3
    monkeypatch.setenv("FUNCTORY_CONFIG", "missing.toml")
    with pytest.raises(
        Invalid, match=r"settings file missing.toml not found\nFUNCTORY_CONFIG names it\ntry: create it"
    ):
        load_settings()


@pytest.mark.parametrize(("given", "url"), [
    ("postgresql://ada@host/shop", "postgresql+psycopg://ada@host/shop"),
    ("postgres://ada@host/shop", "postgresql+psycopg://ada@host/shop"),
    ("postgresql+psycopg://ada:p%40ss@host:5/shop?sslmode=require", "postgresql+psycopg://ada:p%40ss@host:5/shop?sslmode=require"),
    ("sqlite:///shop.db", "sqlite:///shop.db"),
])  # fmt: skip
def test_database_urls_are_taken_in_the_usual_spellings(given, url):
    assert load_settings(database_url=given).database == url


@pytest.mark.parametrize(
    ("broker", "embedded"),
    [("memory://", True), ("amqp://a:b@h//v", False), ("redis://h/0", False), ("rediss://h/0", False)],
)
def test_the_broker_decides_whether_it_is_embedded(broker, embedded):
    assert load_settings(broker_url=broker).embedded is embedded


@pytest.mark.parametrize(("name", "value", "message"), [
    ("MAX_DEPTH", "10001", r"FUNCTORY_MAX_DEPTH: it must be at most 10000 \(Longest causal chain, .*\)"),
    ("MAX_DEPTH", "many", "FUNCTORY_MAX_DEPTH: it must be a whole number"),
    ("DATABASE_URL", "mysql://h/x", "FUNCTORY_DATABASE_URL: unknown database 'mysql'; use one of sqlite://, postgresql://"),
    ("DATABASE_URL", "shop.db", "it is not a URL"),
    ("BROKER_URL", "kafka://h", "FUNCTORY_BROKER_URL: unknown broker 'kafka'"),
    ("NAMESPACE", "My Shop", "FUNCTORY_NAMESPACE: it must have the form"),
    ("LOG_LEVEL", "loud", "FUNCTORY_LOG_LEVEL"),
    ("POLL_SECONDS", "0", "FUNCTORY_POLL_SECONDS: it must be more than 0"),
])  # fmt: skip
def test_a_wrong_setting_says_which_and_what_it_takes(monkeypatch, name, value, message):
    monkeypatch.setenv(f"FUNCTORY_{name}", value)
    with pytest.raises(
        Invalid, match=f"(?s)wrong settings.*{message}.*try: correct it in the environment or in"
    ):
        load_settings()


def test_every_wrong_setting_is_reported_at_once(monkeypatch):
    monkeypatch.setenv("FUNCTORY_MAX_DEPTH", "10001")
    monkeypatch.setenv("FUNCTORY_PORT", "-1")
    with pytest.raises(Invalid, match=r"(?s)MAX_DEPTH.*\n.*PORT|PORT.*\n.*MAX_DEPTH"):
        load_settings()


def test_an_unknown_entry_of_the_file_and_a_broken_file_are_refused(folder):
    (folder / "functory.toml").write_text("colour = 3\n")
    with pytest.raises(Invalid, match="colour: there is no such field"):
        load_settings()
    (folder / "functory.toml").write_text("max_depth = \n")
    with pytest.raises(Invalid, match=r"the settings file functory\.toml cannot be read"):
        load_settings()


def test_a_misspelt_variable_is_refused_and_what_others_set_is_not(monkeypatch):
    monkeypatch.setenv("FUNCTORY_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("FUNCTORY_PORT_7400_TCP_ADDR", "10.0.0.1")
    load_settings()
    monkeypatch.setenv("FUNCTORY_DATBASE_URL", "postgresql://ada:hunter2@host/shop")
    with pytest.raises(
        Invalid, match=r"there is no FUNCTORY_DATBASE_URL\ntry: did you mean FUNCTORY_DATABASE_URL\?"
    ) as caught:
        load_settings()
    assert "hunter2" not in str(caught.value)


def test_a_heartbeat_must_come_twice_within_a_lease():
    with pytest.raises(
        Invalid, match=r"heartbeat_seconds \(10\) must be at most half of lease_seconds \(15\)"
    ):
        load_settings(lease_seconds=15)


def test_no_password_is_shown():
    url = "postgresql://ada:hunter2@host/shop"
    settings = load_settings(database_url=url, broker_url="amqp://ada:hunter2@host", secret_key="hunter2")
    assert "hunter2" not in repr(settings) + str(settings) + repr(settings.model_dump())
    with pytest.raises(Invalid) as caught:
        load_settings(database_url="mysql://ada:hunter2@host/shop")
    assert "hunter2" not in str(caught.value)


def test_settings_do_not_change():
    with pytest.raises(ValueError, match="frozen"):
        Settings().max_depth = 3  # type: ignore[misc]


def test_the_nearest_folder_above_is_the_home(folder, monkeypatch):
    (folder / ".functory").mkdir()
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert load_settings().home == folder / ".functory"
    (folder / "a" / ".functory").mkdir()
    assert load_settings().home == folder / "a" / ".functory"
    monkeypatch.setenv("FUNCTORY_HOME", ".functory")
    assert load_settings().home == Path(".functory"), "a home that is named is not searched"


def test_the_home_is_not_searched_where_everybody_may_write(folder, monkeypatch):
    (folder / ".functory").mkdir()
    (folder / "a").mkdir()
    monkeypatch.chdir(folder / "a")
    folder.chmod(0o1777)
    assert load_settings().home == Path(".functory")


def test_a_linked_folder_above_is_not_the_home(folder, monkeypatch):
    (folder / "elsewhere").mkdir()
    (folder / ".functory").symlink_to("elsewhere")
    (folder / "a").mkdir()
    monkeypatch.chdir(folder / "a")
    assert load_settings().home == Path(".functory")


@pytest.fixture
def below(folder, monkeypatch) -> Path:
    """A folder two levels below, as working folder."""
    made = folder / "a" / "b"
    made.mkdir(parents=True)
    monkeypatch.chdir(made)
    return made


def test_the_nearest_settings_file_above_counts_and_its_paths_are_relative_to_it(folder, below, monkeypatch):
    (folder / "functory.toml").write_text(
        'max_depth = 3\nsecret_key_file = "keys"\ndatabase_url = "sqlite:///data.db"\n'
    )
    settings = load_settings()
    assert (settings.max_depth, settings.secret_key_file) == (3, folder / "keys")
    assert settings.database == f"sqlite:///{folder}/data.db"
    (folder / "a" / "functory.toml").write_text('max_depth = 4\nhome = "data"\n')
    settings = load_settings()
    assert (settings.max_depth, settings.home) == (4, folder / "a" / "data")
    (below / "functory.toml").write_text('max_depth = 5\nhome = "data"\n')
    settings = load_settings()
    assert (settings.max_depth, settings.home) == (5, Path("data"))
    monkeypatch.setenv("FUNCTORY_CONFIG", str(folder / "functory.toml"))
    assert load_settings().max_depth == 3, "a file that is named is not searched"


def test_the_home_is_in_the_project_of_the_settings_file(folder, below):
    (folder / ".functory").mkdir()
    (folder / "a" / "functory.toml").touch()
    assert load_settings().home == folder / "a" / ".functory", "where a new one is made"
    (folder / "a" / ".functory").mkdir()
    assert load_settings().home == folder / "a" / ".functory"
    (below / ".functory").mkdir()
    assert load_settings().home == Path(".functory")


def test_a_settings_file_that_others_may_have_put_there_is_not_used(folder, below):
    (folder / "functory.toml").write_text("max_depth = 3\n")
    folder.chmod(0o1777)
    assert load_settings().max_depth == 16
    folder.chmod(0o755)
    (folder / "functory.toml").rename(folder / "elsewhere.toml")
    (folder / "functory.toml").symlink_to("elsewhere.toml")
    assert load_settings().max_depth == 16


def test_a_broken_settings_file_above_is_named_with_its_folder(folder, below):
    (folder / "functory.toml").write_text("max_depth = \n")
    with pytest.raises(Invalid, match=f"the settings file {folder}/functory.toml cannot be read"):
        load_settings()
