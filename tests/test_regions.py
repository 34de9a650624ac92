import re
from pathlib import Path

import pytest

from tiebe.errors import SettingsError
from tiebe.regions import LANGUAGES, MACRO_REGIONS, REGIONS, find_language, find_regions


def test_the_papers_regions_and_languages() -> None:
    assert len(REGIONS) == 23
    assert len(LANGUAGES) == 13
    assert len([r for r in REGIONS.values() if r.language]) == 16
    assert {r.language_code for r in REGIONS.values()} == set(LANGUAGES)
    assert len(MACRO_REGIONS) == 7
    assert sum(map(len, MACRO_REGIONS.values())) == 22
    without = [r.slug for r in REGIONS.values() if r.indicators is None]
    assert without == ["World"]


def test_indicators_are_those_of_table_6(shared: Path) -> None:
    table = (shared / "paper.txt").read_text("utf-8").split("Table 6:")[1].split("Appendix D")[0]
    rows = [line.split("\t") for line in table.splitlines() if "$" in line]
    assert len(rows) == 22
    for name, _, hdi, gdp, mys, population in rows:
        indicators = find_regions(name)[0].indicators
        assert indicators is not None
        assert [indicators.hdi, indicators.gdp, indicators.mys, indicators.population] == [
            float(re.sub(r"[^0-9.]", "", value)) for value in (hdi, gdp, mys, population)
        ], name


def test_more_than_half_of_the_world_is_covered() -> None:
    assert sum(r.indicators.population for r in REGIONS.values() if r.indicators) == 4_644_418_483


@pytest.mark.parametrize(
    ("name", "slugs"),
    [
        ("Brazil", ["Brazil"]),
        ("brasil", ["Brazil"]),
        ("USA", ["the_United_States"]),
        ("U.S.", ["the_United_States"]),
        ("united states", ["the_United_States"]),
        ("The United Kingdom", ["the_United_Kingdom"]),
        ("U.K.", ["the_United_Kingdom"]),
        ("the_Democratic_Republic_of_the_Congo", ["the_Democratic_Republic_of_the_Congo"]),
        ("DR Congo", ["the_Democratic_Republic_of_the_Congo"]),
        ("D.R. Congo", ["the_Democratic_Republic_of_the_Congo"]),
        ("cod", ["the_Democratic_Republic_of_the_Congo"]),
        ("Congo-Kinshasa", ["the_Democratic_Republic_of_the_Congo"]),
        ("Turkiye", ["Turkey"]),
        ("México", ["Mexico"]),
        ("भारत", ["India"]),
        ("ኢትዮጵያ", ["Ethiopia"]),
        ("中国", ["China"]),
        ("asia", ["India", "China", "Indonesia"]),
        ("South America", ["Brazil", "Argentina", "Colombia"]),
        (["DRC", "Africa"], ["the_Democratic_Republic_of_the_Congo", "Nigeria", "Ethiopia"]),
        (REGIONS["France"], ["France"]),
        ("World", ["World"]),
    ],
)
def test_find_regions(name: object, slugs: list[str]) -> None:
    assert [r.slug for r in find_regions(name)] == slugs  # type: ignore[arg-type]


def test_every_region_is_the_default() -> None:
    assert find_regions() == find_regions("all") == tuple(REGIONS.values())


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Brasill", "Brazil"),
        ("Nigera", "Nigeria"),
        ("Westrn Europe", "Western Europe"),
        ("Atlantis", "expected one of"),
        ([7], "expected one of"),
        ("", "expected one of"),
        ([], "no region was named"),
    ],
)
def test_an_unknown_region_is_told_the_nearest(name: object, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        find_regions(name)  # type: ignore[arg-type]


def test_names_stand_for_one_region_each() -> None:
    for region in REGIONS.values():
        for name in (region.slug, region.name, region.phrase, *region.aliases):
            assert find_regions(name) == (region,), name


def test_page_titles() -> None:
    assert REGIONS["the_United_Kingdom"].page_title(2019) == "2019 in the United Kingdom"
    assert REGIONS["Papua_New_Guinea"].page_title(2025) == "2025 in Papua New Guinea"
    assert REGIONS["World"].page_title(2021) == "2021"


def test_languages() -> None:
    assert find_language("pt").name == find_language("português").name == "Portuguese"
    assert find_language("Tok Pisin").code == "tpi"
    with pytest.raises(SettingsError, match="Portuguese"):
        find_language("Portugese")
    for language in LANGUAGES.values():
        for encoding in language.encodings:
            assert "".encode(encoding) == b""
