"""builder.survey: countries by name, their tiers, and the verb."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from builder.cli import main
from builder.records import Page
from builder.survey import Country, Row, countries, find_countries, survey, tier, tiers
from builder.wikitext import parse
from tiebe.errors import SettingsError
from tiebe.regions import REGIONS


def test_every_country_has_a_page_name() -> None:
    found = countries()
    assert len(found) == 250
    assert {c.slug for c in found.values()} >= set(REGIONS) - {"World"}
    assert found["IS"] == Country("Iceland", "Iceland")
    assert found["NL"].slug == "the_Netherlands"
    assert found["KY"].slug == "the_Cayman_Islands"
    assert found["BA"].slug == "Bosnia_and_Herzegovina"
    assert found["CI"].slug == "Ivory_Coast"
    assert found["CD"] == Country("DR Congo", "the_Democratic_Republic_of_the_Congo")
    assert found["TR"] == Country("Turkey", "Turkey")
    assert not any("’" in c.slug or "&" in c.slug for c in found.values())


def test_find_countries() -> None:
    found = find_countries("iceland, NL,The UK,Netherlands, drc,World")
    assert [c.slug for c in found] == [
        "Iceland",
        "the_Netherlands",
        "the_United_Kingdom",
        "the_Democratic_Republic_of_the_Congo",
        "World",
    ]
    assert len(find_countries("all")) == 250
    with pytest.raises(SettingsError, match="unknown country 'Icland'; did you mean 'Iceland'"):
        find_countries("Icland")


@pytest.mark.parametrize(
    ("events", "expected"),
    [(0, "0"), (1, "1–64"), (64, "1–64"), (65, "65–199"), (500, "500–999"), (5000, "1000+")],
)
def test_tier(events: int, expected: str) -> None:
    assert tier(events) == expected


def test_survey() -> None:
    text = "==Events==\n" + "\n".join(
        f"* {day} {month} – A<ref>https://example.org/{day}</ref>"
        for month in ("May", "July", "August")
        for day in range(1, 29)
    )
    records = []
    for slug, year in (("Iceland", 2018), ("Iceland", 2019), ("Brazil", 2019)):
        page = Page(slug, year, f"{year} in {slug}", 1, None, text if slug == "Iceland" else "")
        records += [page, *parse(page).events]
    wanted = find_countries("Brazil,Iceland,Malta")
    rows = survey(wanted, records)
    assert rows == [
        Row("Iceland", 2, 168, 168, "65–199", "possible"),
        Row("Brazil", 1, 0, 0, "0", "yes"),
        Row("Malta", 0, 0, 0, "0", "too few"),
    ]
    assert {name: n for name, n in tiers(rows).items() if n} == {"0": 2, "65–199": 1}


def folder(tmp_path: Path) -> str:
    for year in (2018, 2019):
        file = tmp_path / f"{year}_in_the_Netherlands.wiki"
        file.write_text("==Events==\n* 4 May – A dyke<ref>https://example.org/d</ref>", "utf-8")
    return f"folder:{tmp_path}"


def test_verb(tmp_path: Path) -> None:
    source = folder(tmp_path)
    options = ["survey", "--source", source, "--years", "2017-2019"]
    result = CliRunner().invoke(main, [*options, "--countries", "NL,Malta", "--json"])
    assert result.exit_code == 0, result.stderr
    first, second = map(json.loads, result.stdout.splitlines())
    assert first == {
        "country": "Netherlands",
        "pages": 2,
        "events": 2,
        "references": 2,
        "tier": "1–64",
        "region": "too few",
    }
    assert second["country"] == "Malta"
    result = CliRunner().invoke(main, [*options, "--countries", "NL", "--by-year"])
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["region", "year", "events", "references"],
        ["the_Netherlands", "2018", "1", "1"],
        ["the_Netherlands", "2019", "1", "1"],
    ]


def test_verb_says_what_is_wrong() -> None:
    for options, status, said in (
        (["--years", "2015-2016"], 1, "pages.contact is empty"),
        (["--years", "2016-2015"], 2, "is not A-B"),
        (["--years", "2015-2016", "--countries", "Atlantis"], 1, "unknown country 'Atlantis'"),
        (["--years", "2015-2016", "--source", "folder:/nowhere"], 1, "there is no folder"),
    ):
        result = CliRunner().invoke(main, ["survey", *options])
        assert result.exit_code == status
        assert said in result.stderr
        assert result.stdout == ""
