from pathlib import Path

import pytest

from builder.settings import read_settings
from tiebe.errors import SettingsError

WHOLE = """
[release]
version = "2025.04"
[pages]
source = "folder:pages"
regions = ["Brazil", "USA"]
years = [2019, 2020]
[web]
rewrite = "http://127.0.0.1:1/?url={url}"
allow_private = true
[generate]
model = "writer"
[models."writer"]
base_url = "http://127.0.0.1:1/v1"
price = {input = 0.27, output = 1.10, on = 2026-11-29}
extra_body = {thinking = false}
"""


def read(tmp_path: Path, text: str) -> object:
    path = tmp_path / "run.toml"
    path.write_text(text, "utf-8")
    return read_settings(path)


def test_reads_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(WHOLE, "utf-8")
    settings = read_settings(path)
    assert settings.regions() == ["Brazil", "the_United_States"]
    assert settings.release.cutoff == "2025-04"
    assert settings.web.allow_private and settings.pages.settled_days == 7
    assert settings.make_budget().prices == {"writer": (0.27, 1.10)}
    assert settings.models["writer"].extra_body == {"thinking": False}


def test_a_repair_has_its_months_cutoff(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('[release]\nversion = "2025.04.2"', "utf-8")
    assert read_settings(path).release.cutoff == "2025-04"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[release]\nverison = "2025.04"',
            r"unknown key 'release.verison'; did you mean 'version'",
        ),
        ('[relase]\nversion = "2025.04"', r"unknown key 'relase'; did you mean 'release'"),
        ("[web]\nx = 1", r"unknown key 'web.x'; there are delay, workers"),
        ("", r"release is missing, and is needed"),
        ("[release]", r"release.version is missing"),
        ('[release]\nversion = "May 2025"', r"release.version is 'May 2025', and must be a month"),
        ('[release]\nversion = "2025.13"', r"must be a month such as"),
        ('[release]\nversion = "2025.04"\ntexts = "some"', r"Invalid enum value 'some'"),
        ("[release", r"is not TOML"),
        (WHOLE.replace("[2019, 2020]", "[2020, 2019]"), r"pages.years = \[2020, 2019\]"),
        (
            WHOLE.replace("[2019, 2020]", '"2020"'),
            r"pages.years must be a list \[…\], and is a text in quotes",
        ),
        (WHOLE.replace('"USA"', '"Brazl"'), r"Brazl.*did you mean 'Brazil'"),
        (
            "[release]\nversion = 2025.04",
            "release.version must be a text in quotes .*, and is a number",
        ),
        (WHOLE.replace("folder:pages", "pages"), r"pages.source = 'pages': expected a MediaWiki"),
        (WHOLE.replace("base_url", "base"), r"""unknown key 'models."writer".base'.*'base_url'"""),
        (WHOLE.replace("input = 0.27, ", ""), r"price.input is missing"),
        (WHOLE + "\n[generate2]", r"unknown key 'generate2'; did you mean 'generate'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read(tmp_path, text)


def test_a_missing_file_says_what_a_run_is(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*a run is a folder with a run.toml"):
        read_settings(tmp_path / "run.toml")


@pytest.mark.parametrize("text", ["[" * 3000, "x = [" + "[" * 3000, "x = " + "9" * 5000, "\x00"])
def test_hostile_toml_is_no_toml(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(SettingsError, match="is not TOML"):
        read_settings(tmp_path / "run.toml")


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('[release]\nversion = "2025.04"\n', "utf-8-sig")
    assert read_settings(tmp_path / "run.toml").release.version == "2025.04"
