"""The regions and languages of the benchmark, as data.

A region is one entry of `REGIONS`; so is a language of `LANGUAGES`. Everything else (slugs in file
names, titles of retrospective pages, names in prompts and tables) follows from the entry.

Indicators are those of 2015, from Table 6 of the paper: World Bank Open Data (GDP, population) and
the UNDP's Human Development Reports (HDI, mean years of schooling).
"""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tiebe.errors import SettingsError, nearest

__all__ = [
    "LANGUAGES",
    "MACRO_REGIONS",
    "REGIONS",
    "Indicators",
    "Language",
    "Region",
    "find_language",
    "find_regions",
    "row_language",
]


@dataclass(frozen=True, slots=True)
class Language:
    """A language in which questions are asked."""

    code: str
    """ISO 639-1, or ISO 639-3 where there is no shorter one."""
    name: str
    """In English."""
    native_name: str
    script: str
    """ISO 15924."""
    encodings: tuple[str, ...] = ()
    """Legacy encodings to try on a page that is not UTF-8 and declares none, likeliest first."""


@dataclass(frozen=True, slots=True)
class Indicators:
    """Socioeconomic indicators of a country in 2015."""

    hdi: float
    """Human Development Index, 0 to 1."""
    gdp: int
    """Gross domestic product, current US dollars."""
    mys: float
    """Mean years of schooling."""
    population: int


@dataclass(frozen=True, slots=True)
class Region:
    """A country, or the world, whose events are asked for."""

    slug: str
    """Its name in files, configs and the `region` column; with spaces, that of its pages."""
    name: str
    """For tables and reports: `United Kingdom`."""
    macro_region: str | None = None
    language_code: str = "en"
    """Of the native questions; `en` where there are none."""
    aliases: tuple[str, ...] = ()
    indicators: Indicators | None = None
    title: str = ""
    """Pattern of its pages' titles when it is not `{year} in {phrase}`."""

    @property
    def phrase(self) -> str:
        """The name inside a sentence, as prompts need it: `the United Kingdom`."""
        return self.slug.replace("_", " ")

    @property
    def language(self) -> Language | None:
        """The native language besides English; None where there is none."""
        return None if self.language_code == "en" else LANGUAGES[self.language_code]

    def page_title(self, year: int) -> str:
        """Returns the title of the retrospective page of a year."""
        return (self.title or "{year} in {phrase}").format(year=year, phrase=self.phrase)


LANGUAGES: Mapping[str, Language] = MappingProxyType(
    {
        language.code: language
        for language in (
            Language("en", "English", "English", "Latn", ("cp1252",)),
            Language("am", "Amharic", "አማርኛ", "Ethi"),
            Language("de", "German", "Deutsch", "Latn", ("cp1252",)),
            Language("es", "Spanish", "Español", "Latn", ("cp1252",)),
            Language("fr", "French", "Français", "Latn", ("cp1252",)),
            Language("hi", "Hindi", "हिन्दी", "Deva"),
            Language("id", "Indonesian", "Bahasa Indonesia", "Latn", ("cp1252",)),
            Language("pt", "Portuguese", "Português", "Latn", ("cp1252",)),
            Language("ru", "Russian", "Русский", "Cyrl", ("cp1251", "koi8_r")),
            Language("tpi", "Tok Pisin", "Tok Pisin", "Latn", ("cp1252",)),
            Language("tr", "Turkish", "Türkçe", "Latn", ("cp1254",)),
            Language("uk", "Ukrainian", "Українська", "Cyrl", ("cp1251", "koi8_u")),
            Language("zh", "Chinese", "中文", "Hans", ("gb18030", "big5")),
        )
    }
)

REGIONS: Mapping[str, Region] = MappingProxyType(
    {
        region.slug: region
        for region in (
            Region(
                "the_United_States",
                "United States",
                "North America",
                aliases=("USA", "US", "America", "United States of America"),
                indicators=Indicators(0.927, 18_295_019_000_000, 13.57, 320_738_994),
            ),
            Region(
                "Canada",
                "Canada",
                "North America",
                aliases=("CA", "CAN"),
                indicators=Indicators(0.935, 1_556_508_816_217, 13.86, 35_704_498),
            ),
            Region(
                "Mexico",
                "Mexico",
                "North America",
                "es",
                ("MX", "MEX", "México", "Méjico"),
                Indicators(0.781, 1_213_294_467_717, 9.22, 121_072_306),
            ),
            Region(
                "Brazil",
                "Brazil",
                "South America",
                "pt",
                ("BR", "BRA", "Brasil"),
                Indicators(0.760, 1_802_212_206_905, 8.28, 201_675_532),
            ),
            Region(
                "Argentina",
                "Argentina",
                "South America",
                "es",
                ("AR", "ARG"),
                Indicators(0.849, 594_749_285_413, 11.14, 43_477_012),
            ),
            Region(
                "Colombia",
                "Colombia",
                "South America",
                "es",
                ("CO", "COL"),
                Indicators(0.758, 293_492_370_193, 8.86, 46_969_940),
            ),
            Region(
                "India",
                "India",
                "Asia",
                "hi",
                ("IN", "IND", "Bharat", "भारत"),
                Indicators(0.644, 2_103_588_360_045, 6.57, 1_328_024_498),
            ),
            Region(
                "China",
                "China",
                "Asia",
                "zh",
                ("CN", "CHN", "PRC", "People's Republic of China", "中国"),
                Indicators(0.788, 11_061_572_618_579, 8.11, 1_379_860_000),
            ),
            Region(
                "Indonesia",
                "Indonesia",
                "Asia",
                "id",
                ("ID", "IDN"),
                Indicators(0.713, 860_854_232_718, 8.56, 261_799_249),
            ),
            Region(
                "Australia",
                "Australia",
                "Oceania",
                aliases=("AU", "AUS"),
                indicators=Indicators(0.946, 1_351_296_372_254, 12.72, 23_815_995),
            ),
            Region(
                "Papua_New_Guinea",
                "Papua New Guinea",
                "Oceania",
                "tpi",
                ("PG", "PNG", "Papua Niugini"),
                Indicators(0.568, 21_723_437_010, 4.93, 8_743_246),
            ),
            Region(
                "New_Zealand",
                "New Zealand",
                "Oceania",
                aliases=("NZ", "NZL", "Aotearoa"),
                indicators=Indicators(0.939, 178_104_220_785, 12.94, 4_609_400),
            ),
            Region(
                "Germany",
                "Germany",
                "Western Europe",
                "de",
                ("DE", "DEU", "Deutschland"),
                Indicators(0.950, 3_423_568_450_957, 14.25, 81_686_611),
            ),
            Region(
                "the_United_Kingdom",
                "United Kingdom",
                "Western Europe",
                aliases=("UK", "GB", "GBR", "Great Britain", "Britain"),
                indicators=Indicators(0.940, 2_927_911_140_917, 13.40, 65_116_219),
            ),
            Region(
                "France",
                "France",
                "Western Europe",
                "fr",
                ("FR", "FRA"),
                Indicators(0.910, 2_442_483_452_643, 11.68, 66_548_272),
            ),
            Region(
                "Portugal",
                "Portugal",
                "Western Europe",
                "pt",
                ("PT", "PRT"),
                Indicators(0.874, 199_038_523_120, 9.58, 10_358_076),
            ),
            Region(
                "Russia",
                "Russia",
                "Eastern Europe",
                "ru",
                ("RU", "RUS", "Russian Federation", "Россия"),
                Indicators(0.821, 1_363_482_182_198, 12.41, 144_640_716),
            ),
            Region(
                "Ukraine",
                "Ukraine",
                "Eastern Europe",
                "uk",
                ("UA", "UKR", "Україна"),
                Indicators(0.734, 91_030_967_789, 11.12, 45_784_896),
            ),
            Region(
                "Turkey",
                "Turkey",
                "Eastern Europe",
                "tr",
                ("TR", "TUR", "Türkiye"),
                Indicators(0.855, 864_313_810_469, 8.81, 78_218_479),
            ),
            Region(
                "Nigeria",
                "Nigeria",
                "Africa",
                aliases=("NG", "NGA"),
                indicators=Indicators(0.548, 493_026_682_801, 7.59, 190_671_878),
            ),
            Region(
                "the_Democratic_Republic_of_the_Congo",
                "DR Congo",
                "Africa",
                "fr",
                (
                    "CD",
                    "COD",
                    "DRC",
                    "DROC",
                    "Congo-Kinshasa",
                    "Democratic Republic of Congo",
                    "République démocratique du Congo",
                ),
                Indicators(0.481, 37_917_706_497, 7.21, 81_035_531),
            ),
            Region(
                "Ethiopia",
                "Ethiopia",
                "Africa",
                "am",
                ("ET", "ETH", "ኢትዮጵያ"),
                Indicators(0.492, 64_589_328_551, 2.39, 103_867_135),
            ),
            Region("World", "World", aliases=("Global", "International"), title="{year}"),
        )
    }
)

MACRO_REGIONS: Mapping[str, tuple[Region, ...]] = MappingProxyType(
    {
        name: tuple(region for region in REGIONS.values() if region.macro_region == name)
        for name in dict.fromkeys(r.macro_region for r in REGIONS.values() if r.macro_region)
    }
)
"""The seven groups of §3.1 of the paper; World belongs to none."""


def _plain(name: str) -> str:
    """Returns a name without case, accents, punctuation, underscores or a leading article."""
    letters = unicodedata.normalize("NFKD", name.replace("_", " ").replace("-", " ")).casefold()
    kept = "".join(c for c in letters if c.isalnum() or c.isspace())
    return " ".join(kept.split()).removeprefix("the ")


_REGION_NAMES: dict[str, tuple[Region, ...]] = {_plain(n): g for n, g in MACRO_REGIONS.items()} | {
    _plain(name): (region,)
    for region in REGIONS.values()
    for name in (region.slug, region.name, *region.aliases)
}

_LANGUAGE_NAMES: dict[str, Language] = {
    _plain(name): language
    for language in LANGUAGES.values()
    for name in (language.code, language.name, language.native_name)
}


def find_regions(names: str | Region | Iterable[str | Region] | None = None) -> tuple[Region, ...]:
    """Returns the regions that names stand for, each once, in the order they are asked for.

    Args:
        names: A slug, display name, alias, ISO 3166 code or macro-region, or several of these;
            case, accents and a leading "the" do not matter. None and "all" mean every region.

    Raises:
        SettingsError: A name is unknown, or there is none.
    """
    if names is None or names == "all":
        return tuple(REGIONS.values())
    found: dict[str, Region] = {}
    for name in [names] if isinstance(names, str | Region) else names:
        if isinstance(name, Region):
            found[name.slug] = name
            continue
        group = _REGION_NAMES.get(_plain(name)) if isinstance(name, str) else None
        if group is None:
            known = [*REGIONS, *(r.name for r in REGIONS.values()), *MACRO_REGIONS]
            close = nearest(name, known) if isinstance(name, str) else ""
            raise SettingsError(
                f"unknown region {name!r}{close or '; expected one of ' + ', '.join(REGIONS)}"
            )
        found |= {region.slug: region for region in group}
    if not found:
        raise SettingsError("no region was named; leave it out (None) to have them all")
    return tuple(found.values())


def row_language(language: str, region: str, split: str = "") -> str:
    """Returns the ISO 639 code of a row's language, empty where the row does not tell it.

    Args:
        language: A code; or `english` or `native`, as rows of upstream's have it; or nothing.
        region: A slug, which tells what native means.
        split: `english`, `native` or nothing, for rows without a language.
    """
    named = language or split
    if named == "native":
        return REGIONS[region].language_code if region in REGIONS else ""
    return "en" if named == "english" else named


def find_language(name: str) -> Language:
    """Returns the language of an ISO 639 code, English name or native name.

    Raises:
        SettingsError: There is no such language here.
    """
    try:
        return _LANGUAGE_NAMES[_plain(name)]
    except KeyError:
        known = [lang.name for lang in LANGUAGES.values()]
        close = nearest(name, [*LANGUAGES, *known])
        raise SettingsError(
            f"unknown language {name!r}{close or '; expected one of ' + ', '.join(LANGUAGES)}"
        ) from None
