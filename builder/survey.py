"""Counts what the retrospective pages of every country hold: which could be a region.

Names are those of Unicode's CLDR (babel), which are what people say; where Wikipedia says another
one, a table here does.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from builder.collect import statistics
from builder.records import Event, Page
from tiebe.errors import SettingsError, nearest
from tiebe.regions import REGIONS

__all__ = [
    "SMALLEST_REGION",
    "TIERS",
    "Country",
    "Row",
    "countries",
    "find_countries",
    "survey",
    "tier",
    "tiers",
]

SMALLEST_REGION = 65
"""Events of Papua New Guinea, the region of the paper's Table 5 that has the fewest."""
TIERS = (0, 1, SMALLEST_REGION, 200, 500, 1000)
"""Lower bounds of the tiers. The paper's Figure 6 groups countries by their events and prints no
bounds; these are ours, the third being the smallest region's."""

_NO_COUNTRIES = {"AC", "CP", "CQ", "DG", "EA", "EU", "EZ", "IC", "QO", "TA", "UN", "XA", "XB", "ZZ"}
# By ISO 3166 code: what stands behind "2019 in", where it is not CLDR's name.
_PAGE_NAMES = {
    "AE": "the United Arab Emirates",
    "BS": "the Bahamas",
    "CF": "the Central African Republic",
    "CG": "the Republic of the Congo",
    "CI": "Ivory Coast",
    "CZ": "the Czech Republic",
    "DO": "the Dominican Republic",
    "FM": "the Federated States of Micronesia",
    "GE": "Georgia (country)",
    "GM": "the Gambia",
    "HK": "Hong Kong",
    "IM": "the Isle of Man",
    "KM": "the Comoros",
    "MM": "Myanmar",
    "MO": "Macau",
    "MV": "the Maldives",
    "NL": "the Netherlands",
    "PH": "the Philippines",
    "PS": "the State of Palestine",
    "VI": "the United States Virgin Islands",
}


class Country(NamedTuple):
    """A country as CLDR names it, and as its pages are called."""

    name: str
    slug: str
    """A region's, where it is one; with spaces, the name in the titles of its pages."""


class Row(NamedTuple):
    """What a country's pages hold."""

    country: str
    pages: int
    events: int
    references: int
    tier: str
    region: str
    """`yes` for a region of the benchmark, `possible`, or `too few`."""


def countries() -> dict[str, Country]:
    """Returns every country and territory of ISO 3166, and Kosovo, by code."""
    from babel import Locale

    own = {a: r for r in REGIONS.values() for a in r.aliases if len(a) == 2 and a.isascii()}
    found = {}
    for code, cldr in sorted(Locale("en").territories.items(), key=lambda item: item[1]):
        if len(code) != 2 or not code.isalpha() or code in _NO_COUNTRIES:
            continue
        if code in own:
            found[code] = Country(own[code].name, own[code].slug)
            continue
        name = cldr.replace("&", "and").replace("’", "'").replace("St. ", "Saint ")
        name = name.replace("U.S.", "United States")
        the = "the " if name.endswith("Islands") else ""
        found[code] = Country(cldr, _PAGE_NAMES.get(code, the + name).replace(" ", "_"))
    return found


def find_countries(names: str) -> list[Country]:
    """Returns the countries that a list of names or codes stands for.

    Args:
        names: `all`, or names, slugs or ISO 3166 codes, separated by commas.

    Raises:
        SettingsError: A name is unknown.
    """
    every = countries()
    if names == "all":
        return list(every.values())
    known: dict[str, Country] = {}
    for code, country in every.items():
        for name in (code, country.name, country.slug):
            known[_key(name)] = country
    for region in REGIONS.values():
        for name in (region.slug, region.name, *region.aliases):
            known.setdefault(_key(name), Country(region.name, region.slug))
    found = []
    for name in filter(None, map(str.strip, names.split(","))):
        if _key(name) not in known:
            hint = nearest(name, [country.name for country in every.values()])
            raise SettingsError(
                f"unknown country {name!r}{hint or '; expected a name or its code'}"
            )
        found.append(known[_key(name)])
    return list(dict.fromkeys(found))


def _key(name: str) -> str:
    return name.replace("_", " ").casefold().removeprefix("the ")


def tier(events: int) -> str:
    """Returns the tier of a number of events: `0`, `1–64`, …, `1000+`."""
    at = max(i for i, bound in enumerate(TIERS) if events >= bound)
    low, high = TIERS[at], TIERS[at + 1] - 1 if at + 1 < len(TIERS) else None
    return f"{low}+" if high is None else str(low) if low == high else f"{low}–{high}"


def survey(wanted: Sequence[Country], records: Iterable[Page | Event]) -> list[Row]:
    """Returns a row per country, those with most events first."""
    pages: dict[str, int] = {}
    events: list[Event] = []
    for record in records:
        if isinstance(record, Page):
            pages[record.region] = pages.get(record.region, 0) + 1
        else:
            events.append(record)
    counted = {row.region: row for row in statistics(events, by_year=False)}
    rows = []
    for name, slug in wanted:
        n, references = (
            (counted[slug].events, counted[slug].references) if slug in counted else (0, 0)
        )
        enough = "yes" if slug in REGIONS else "possible" if n >= SMALLEST_REGION else "too few"
        rows.append(Row(name, pages.get(slug, 0), n, references, tier(n), enough))
    return sorted(rows, key=lambda row: (-row.events, row.country))


def tiers(rows: Iterable[Row]) -> Mapping[str, int]:
    """Returns how many countries are in each tier, the lowest first."""
    counts = {tier(bound): 0 for bound in TIERS}
    for row in rows:
        counts[row.tier] += 1
    return counts
