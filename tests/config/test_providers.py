"""Secrets that settings only refer to: read where the provider may, refused where they are not,
shown nowhere."""

import os
from pathlib import Path

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.providers import PACKAGE
from kbroker.config.setting import ConfigError

PROVIDERS = {
    "log.dirs": "/d",
    "config.providers": "file,env, dir",
    "config.providers.file.class": f"{PACKAGE}FileConfigProvider",
    "config.providers.env.class": f"{PACKAGE}EnvVarConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}DirectoryConfigProvider",
}


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "secrets.properties").write_text("key.password=open\\=sesame\nother=x\n")
    (tmp_path / "token").write_text("from a file")
    (tmp_path / "a:b").write_text("a key with a colon")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "secrets.properties")
    monkeypatch.setenv("KBROKER_TEST_SECRET", "from the environment")
    return tmp_path


def value(text: str, **more: str) -> str:
    pairs = PROVIDERS | {"ssl.key.password": text} | {f"config.providers.{k}": v for k, v in more.items()}
    config, warnings = BrokerConfig.load(pairs)
    assert not [warning for warning in warnings if "config.providers" in warning]
    return str(config.value("ssl.key.password"))


def test_references_are_replaced_by_what_they_refer_to(secrets: Path) -> None:
    assert value(f"${{file:{secrets}/secrets.properties:key.password}}") == "open=sesame"
    assert value(f"${{dir:{secrets}:token}}") == "from a file"
    assert value(f"${{dir:{secrets}:a:b}}") == "a key with a colon"
    assert value("${env:KBROKER_TEST_SECRET}") == "from the environment"
    assert value("<${env:KBROKER_TEST_SECRET}|${env:KBROKER_TEST_SECRET}>").count("environment") == 2
    config, _ = BrokerConfig.load(PROVIDERS, {"ssl.key.password": "${env:KBROKER_TEST_SECRET}"})
    assert config.get_optional_str("ssl.key.password") == "from the environment"


@pytest.mark.parametrize(
    "text", ["${vault:a:b}", "$env:X", "${env}", "${}", "plain", "${env:PATH", "${a ${env:PATH}"]
)
def test_a_text_without_a_reference_to_a_provider_stays(text: str) -> None:
    assert value(text) == text


def test_a_long_text_without_an_end_of_a_reference_is_read_once() -> None:
    """Each beginning searched the rest for colons and an end: hours for this text."""
    text = "${env:a:" * 100_000
    assert value(text) == text


def test_without_providers_nothing_is_replaced() -> None:
    config, _ = BrokerConfig.load({"log.dirs": "/d", "ssl.key.password": "${env:PATH}"})
    assert config.get_optional_str("ssl.key.password") == "${env:PATH}"


@pytest.mark.parametrize(
    "text",
    [
        "${file:{folder}/secrets.properties:none}", "${file:{folder}/none:key.password}", "${file:{folder}:a}",
        "${dir:{folder}:none}", "${dir:{folder}/elsewhere:../token}", "${dir:{folder}:}", "${env:KBROKER_TEST_NONE}",
        "${env:path:PATH}",
    ],
)  # fmt: skip
def test_a_reference_to_nothing_refuses_the_start(secrets: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"^ssl.key.password: \$"):
        value(text.replace("{folder}", str(secrets)))


@pytest.mark.parametrize("text", ["${file:{folder}/pipe:key.password}", "${dir:{folder}:pipe}"])
def test_a_pipe_in_place_of_a_file_is_refused(secrets: Path, text: str) -> None:
    """The start waited for a writer for ever."""
    os.mkfifo(secrets / "pipe")
    with pytest.raises(ConfigError, match="not a plain file"):
        value(text.replace("{folder}", str(secrets)))


def test_a_secret_that_kubernetes_mounts_is_read(tmp_path: Path) -> None:
    """Its file is a link to one in ..data, which is a link to a folder that an update replaces."""
    mount = tmp_path / "mount"
    (mount / "..2026_01_31").mkdir(parents=True)
    (mount / "..2026_01_31" / "password").write_text("mounted")
    (mount / "..data").symlink_to("..2026_01_31")
    (mount / "password").symlink_to("..data/password")
    for allowed in ("", str(mount)):
        assert value(f"${{dir:{mount}:password}}", **{"dir.param.allowed.paths": allowed}) == "mounted"


def test_providers_read_only_what_they_may(secrets: Path) -> None:
    file = f"${{file:{secrets}/secrets.properties:key.password}}"
    assert value(file, **{"file.param.allowed.paths": f"/none,{secrets}"}) == "open=sesame"
    for path in ("link", "elsewhere/../secrets.properties", "secrets.properties"):
        with pytest.raises(ConfigError, match=r"allowed\.paths"):
            value(
                f"${{file:{secrets}/{path}:key.password}}",
                **{"file.param.allowed.paths": f"{secrets}/elsewhere"},
            )
    assert value("${env:KBROKER_TEST_SECRET}", **{"env.param.allowlist.pattern": "KBROKER_.*"})
    for pattern in ("KBROKER", "X.*"):
        with pytest.raises(ConfigError, match="allowlist"):
            value("${env:KBROKER_TEST_SECRET}", **{"env.param.allowlist.pattern": pattern})


def test_a_provider_that_is_not_kafkas_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"config\.providers\.file\.class must be one of"):
        value("x", **{"file.class": "com.example.Vault"})


def test_no_problem_shows_a_value(secrets: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.load(
            PROVIDERS | {"node.id": f"${{file:{secrets}/secrets.properties:key.password}}x${{env:NO}}"}
        )
    assert "sesame" not in str(refused.value)
    (secrets / "secrets.properties").write_text("key.password=open\\users@me\n")
    with pytest.raises(ConfigError, match=r"key\.password: Malformed") as refused:
        value(f"${{file:{secrets}/secrets.properties:key.password}}")
    assert "users" not in str(refused.value)


@pytest.mark.parametrize("text", ["/d\0", "\ud800", "${file:/a\0b:key}", "${directory:/a:\0}"])
def test_a_value_that_is_no_text_is_refused(text: str) -> None:
    """No file has such a name: the start ended with a traceback."""
    with pytest.raises(ConfigError, match=r"configuration log\.dirs: it is not text"):
        BrokerConfig.load(PROVIDERS, {"log.dirs": text})


@pytest.mark.parametrize("escape", [r"\u0000", r"\ud800"])
def test_a_reference_to_what_is_no_text_is_refused(secrets: Path, escape: str) -> None:
    (secrets / "secrets.properties").write_text(f"folder=/d{escape}\n")
    with pytest.raises(ConfigError, match=r"configuration log\.dirs: it is not text"):
        BrokerConfig.load(PROVIDERS, {"log.dirs": f"${{file:{secrets}/secrets.properties:folder}}"})


def test_a_path_in_another_encoding_is_text() -> None:
    """Python reads its bytes on the command line as halves of pairs, and writes them again."""
    assert BrokerConfig.load({}, {"log.dirs": "/d\udcff"})[0].log_dirs == ("/d\udcff",)
