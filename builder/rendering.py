"""Renders wikitext to the text that a reader sees, as lines that keep their list markup.

References leave marks (`builder.citations`), links keep marks around their labels, templates render
through a table with one line each, and what the table does not know is counted.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import Any, Literal

from mwparserfromhell.nodes import (
    Argument,
    Comment,
    ExternalLink,
    Heading,
    HTMLEntity,
    Tag,
    Template,
    Text,
    Wikilink,
)

from builder.citations import MARK, Sources, parse_nodes, template_name
from builder.dates import MONTH_NAMES

__all__ = ["INVISIBLE", "LINK", "Renderer", "clean"]

LINK = re.compile("\ue002([^\ue002\ue003]*)\ue003")
"""A link's label in rendered text."""
INVISIBLE = re.compile("[\ue000-\ue003\xad\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff]")
"""What no reader sees, and what only our own marks may be."""

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


class Arguments:
    """The rendered arguments of a template."""

    def __init__(self, node: Template, render: Callable[[Any], str]) -> None:
        self.values = {str(p.name).strip().casefold(): p.value for p in node.params}
        self._render = render

    def __call__(self, *names: str | int) -> str:
        """Returns the first of these arguments that has a text."""
        for name in names:
            value = self.values.get(str(name))
            if value is not None and (text := " ".join(self._render(value).split())):
                return text
        return ""

    def numbered(self) -> list[str]:
        """Returns the positional arguments, up to the first that is missing."""
        texts: list[str] = []
        while str(len(texts) + 1) in self.values:
            texts.append(self(len(texts) + 1))
        return texts


_Rule = Callable[[Arguments], str]
_UNITS: dict[str, tuple[str, str, str, str, str]] = {
    k: tuple(v) for k, v in _TABLES["units"].items()
}
_RANGES = {"-": "–", "–": "–", "to": " to ", "and": " and ", "or": " or ", "by": " by ", "x": " × "}
_INDIAN = {"c": " crore", "l": " lakh", "m": " million", "b": " billion", "k": " thousand"}


def _number(text: str) -> Decimal | None:
    try:
        value = Decimal(text.replace(",", "").replace("−", "-"))
    except InvalidOperation:
        return None
    return value if value.is_finite() and abs(value.adjusted()) < 20 else None


def _grouped(value: Decimal) -> str:
    return f"{value:,f}".replace("-", "−")


def _rounded(value: Decimal, digits: int) -> Decimal:
    """Returns a number rounded to so many significant digits."""
    places = digits - value.adjusted() - 1
    return value.quantize(Decimal(1).scaleb(-places)) if places > 0 else round(value, places)


def _convert(a: Arguments, *, short: bool = False) -> str:
    """Renders {{convert}} by an approximation of Module:Convert's rounding."""
    words = a.numbered()
    amounts, joints = words[:1], []
    while len(words) > 3 and words[1] in _RANGES:
        joints.append(_RANGES[words[1]])
        amounts.append(words[2])
        del words[1:3]
    numbers = [n for amount in amounts if (n := _number(amount)) is not None]
    source = words[1] if len(words) > 1 else ""
    if len(numbers) < len(amounts) or source not in _UNITS:
        return " ".join([*amounts[:1], source]).strip()
    target = words[2] if len(words) > 2 and words[2] in _UNITS else _UNITS[source][4]
    shown = [x if "," in x else _grouped(n) for n, x in zip(numbers, amounts, strict=True)]
    results = [_converted(n, x, source, target) for n, x in zip(numbers, amounts, strict=True)]
    before, after = (
        "".join(f"{x}{j}" for x, j in zip(side, [*joints, ""], strict=True))
        for side in (shown, results)
    )
    symbol, name, plural = _UNITS[source][:3]
    abbreviated = a("abbr") or ("on" if short else "")
    hyphen = "-" if a("adj") in ("on", "mid") and name.isalpha() else " "
    unit = (
        symbol
        if abbreviated in ("on", "in")
        else name
        if hyphen == "-" or numbers == [1]
        else plural
    )
    other = _UNITS[target][2 if abbreviated == "off" else 0]
    if a("sp") == "us":
        unit, other = (re.sub(r"(met|lit)re", r"\1er", x) for x in (unit, other))
    if a("disp") in ("out", "output only"):
        return f"{after} {other}"
    return f"{before}{hyphen}{unit} ({after} {other})"


def _converted(value: Decimal, written: str, source: str, target: str) -> str:
    if (source, target) == ("C", "F"):
        value = value * 9 / 5 + 32
    elif (source, target) == ("F", "C"):
        value = (value - 32) * 5 / 9
    else:
        value = value * Decimal(_UNITS[source][3]) / Decimal(_UNITS[target][3])
    figures = re.sub(r"\D", "", written).lstrip("0")
    figures = figures if "." in written else figures.rstrip("0")
    return _grouped(_rounded(value, max(2, len(figures))))


def _date(year: str, month: str = "", day: str = "", *, month_first: bool = False) -> str:
    """Writes a date out: `16 February 2016` or `February 16, 2016`."""
    if month.isdecimal() and 0 < int(month) < 13:
        month = MONTH_NAMES[int(month) - 1]
    if month and day:
        day = day.lstrip("0")
        return f"{month} {day}, {year}" if month_first else f"{day} {month} {year}"
    return f"{month} {year}".strip()


def _written_date(a: Arguments) -> str:
    """Renders {{date|2016-07-23|mdy}}, {{dts|23 July 2016}} or {{dts|2016|7|23}}."""
    iso = re.fullmatch(r"(\d{4})-(\d\d?)-(\d\d?)", a(1))
    if iso:
        return _date(*iso.groups(), month_first=a(2).startswith("mdy"))
    return _date(a(1), a(2), a(3)) if a(1).isdecimal() and a(2) else a(1)


def _as_of(a: Arguments) -> str:
    words = "since" if a("since") else "as of"
    words = words if a("lc") else words.capitalize()
    return a("alt") or f"{words} {_date(a(1), a(2), a(3), month_first=a('df') == 'us')}"


def _ship(prefix: str, name: str, hull: str, shown: str) -> str:
    """Renders {{HMS|Ark Royal|R07}} in the numbered formats of its documentation."""
    prefix = "" if shown in ("1", "3", "6") else prefix
    hull = f"({hull})" if hull and shown not in ("2", "6") else ""
    return " ".join(filter(None, (prefix, name, hull)))


def _named_ship(prefix: str, a: Arguments) -> str:
    return _ship(prefix, a(1), a(2), a(3))


def _money(sign: str, a: Arguments) -> str:
    return sign + a(1) + _INDIAN.get(a(2), "")


def _spelled_date(a: Arguments) -> str:
    return _date(a(1), a(2), a(3), month_first=not a("df"))


def _sic(a: Arguments) -> str:
    said = a(1) + a(2)
    return said if a("hide") else f"{said} [sic]"


def _japanese(a: Arguments) -> str:
    return f"{a(1)} ({', '.join(filter(None, (a(2), a(3))))})" if a(2) else a(1)


def _fraction(a: Arguments) -> str:
    """Renders {{frac|2}}, {{frac|1|2}} or {{frac|2|1|2}}."""
    parts = a.numbered()
    if not parts:
        return ""
    *whole, above, below = parts if len(parts) > 1 else ("1", *parts)
    return "".join(f"{w}+" for w in whole) + f"{above}\u2044{below}"


def _table(*rows: tuple[str, _Rule]) -> dict[str, _Rule]:
    return {name: rule for names, rule in rows for name in names.split("|")}


# What a template shows. `|` parts synonyms.
_TEMPLATES: dict[str, _Rule] = {
    **{p.casefold(): partial(_named_ship, p) for p in _TABLES["ships"]["prefixes"]},
    **{name: partial(_money, sign) for name, sign in _TABLES["currencies"].items()},
    **_table(
        ("nowrap|nobr|no wrap|nobold|noitalic|no italics|small|smaller|big|larger", lambda a: a(1)),
        ("em|strong|italic|italics|bold|underline|sup|sub|mono|code|mvar", lambda a: a(1)),
        ("abbr|abbrv|abbreviation|tooltip|visible anchor|vanchor|as written", lambda a: a(1)),
        ("proper name|linktext|no redirect|quote|blockquote|text|q|not a typo", lambda a: a(1)),
        ("lang|langx|transl|transliteration|tlit|font color|color|resize", lambda a: a(2, 1)),
        ("ill|interlanguage link|link-interwiki", lambda a: a("lt", 1)),
        ("nihongo|nihongo foot|nihongo krt", _japanese),
        ("ship", lambda a: _ship(a(1), a(2), a(3), a(4))),
        ("circa|c.|ca.", lambda a: f"c. {a(1)}".strip()),
        ("floruit|fl.", lambda a: f"fl. {a(1)}".strip()),
        ("frac|fraction|sfrac", _fraction),
        ("m|earthquake magnitude", lambda a: f"M{a(1)} {a(2)}" if a(2) else f"M {a(1)}"),
        ("mw|m w", lambda a: f"Mw {a(1)}"),
        ("convert", _convert),
        ("cvt", lambda a: _convert(a, short=True)),
        ("as of", _as_of),
        ("date|dts|date table sorting|formatdate", _written_date),
        ("start date|end date|start-date|end-date|event date", _spelled_date),
        ("flag|flagcountry|flagu|flag country|fb|fbw|flagg|nft|noflag", lambda a: a("name", 1)),
        ("formatnum|number|nts|val|gaps", lambda a: a(1)),
        ("percent|%", lambda a: f"{a(1)}%"),
        ("sic", _sic),
        ("snd|spaced ndash|spaced en dash|spnd|sndash|–", lambda a: " – "),
        ("spaced mdash|spaced em dash|smd", lambda a: " — "),
        ("ndash|en dash|nbndash|endash", lambda a: "–"),
        ("mdash|em dash|emdash", lambda a: "—"),
        ("nbsp|nbs|space|spaces|thinsp|thin space|hair space|break|br|crlf|pad", lambda a: " "),
        ("'|`|apostrophe", lambda a: "'"),
        ("'s", lambda a: "'s"),
        ('"|dq', lambda a: f'"{a(1)}"' if a(1) else '"'),
        ("!|pipe", lambda a: "|"),
        ("=|equals", lambda a: "="),
        ("bull|middot|dot|·|•|bullet", lambda a: " · "),
        ("co2|carbon dioxide", lambda a: "CO2"),
        ("chem|chem2", lambda a: "".join(a.numbered())),
        ("section link|slink", lambda a: " § ".join(filter(None, a.numbered()))),
        ("sclass", lambda a: f"{a(1)}-class {a(2)}"),
    ),
}


_SILENT = {name for names in _TABLES["silent"].values() for name in names}
_SILENT_LIKE = re.compile(
    r".* needed$|.*[ -]inline$|.*\?$|^use (?:\w+ )+(?:english|dates)$|^pp[ -]|.*\bsidebar$"
    r"|^(?:infobox|sidebar|navbox)\b|^years? (?:in|nav|article|and)\b|^year\w*nav$|^c\d\d year in"
    r"|^year \d|^.* topics?$|^toc\b|.*\bsection$|^#(?:if|switch|expr|invoke)"
)
# Templates around a list: the list is a list.
_LIST_FIELDS = ("1", "2", "3", "4", "5", "content", "list", "text")
_LIST_BEGINS = re.compile(r"(?:\A|\n)\s*[*#]")
_BULLETED = {"bulleted list", "blist", "ubl", "unbulleted list", "ublist", "ubil", "ordered list"}
_TRANSCLUDING = re.compile(
    r"^[:/]|^#?(?:lst|lsth|lstx|section|section-h)\b:?|^excerpt$|^transcluded section$"
)
_HIDDEN_TAGS = set(_TABLES["hidden"]["tags"])
_IMAGE = re.compile(r"\s*(?:File|Image)\s*:", re.I)
_CATEGORY = re.compile(r"\s*Category\s*:", re.I)
_OTHER_LANGUAGE = re.compile(r"\s*[a-z]{2,3}(?:-[a-z]+)*\s*:")


class Renderer:
    """Turns wikitext into the text that a reader sees, with marks for references and links.

    Args:
        sources: Keeps the references and links that stand in the text.
        skip: Told of a table or a transclusion, whose content is not rendered.
    """

    def __init__(
        self, sources: Sources, skip: Callable[[Literal["table", "transclusion"], str], None]
    ) -> None:
        self.unknown: Counter[str] = Counter()
        """Templates that the table does not know, so that their text is lost."""
        self.counting = True
        """Whether these are counted: not where no event can stand."""
        self._sources = sources
        self._skip = skip
        self._depth = 0

    def text(self, wikitext: str) -> str:
        """Returns the rendered text of wikitext, in lines that begin with their list markup."""
        return self._nodes(parse_nodes(wikitext))

    def _code(self, code: Any) -> str:
        return self._nodes(code.nodes)

    def _nodes(self, nodes: Iterable[Any]) -> str:
        return "".join([self._node(node) for node in nodes])

    def _node(self, node: Any) -> str:
        kind = type(node)
        if kind is Text:
            return str(node.value)
        if kind is Wikilink:
            return self._wikilink(node)
        if kind is Tag:
            return self._tag(node)
        if kind is Template:
            return self._template(node)
        if kind is HTMLEntity:
            return _character(node)
        if kind is ExternalLink:
            return self._external(node)
        if kind is Heading:
            return f"\n{self._code(node.title)}\n"
        if kind is Argument:
            return self._code(node.default) if node.default is not None else ""
        return "" if kind is Comment else str(node)

    def _wikilink(self, node: Wikilink) -> str:
        title = str(node.title)
        if _IMAGE.match(title) or _CATEGORY.match(title):
            return ""
        if node.text is None:
            if _OTHER_LANGUAGE.match(title):
                return ""
            label = title.strip().removeprefix(":")
        else:
            label = self._code(node.text)
        return f"\ue002{label}\ue003"

    def _external(self, node: ExternalLink) -> str:
        url = str(node.url)
        if node.brackets and node.title is not None:
            label = self._code(node.title)
            mark = self._sources.add_link(url, clean(label))
            # [url (Source)] is how a portal cites; any other label is part of the sentence.
            return mark if re.fullmatch(r"\s*\(.*\)\s*", label) else label + mark
        mark = self._sources.add_link(url, None)
        return mark + url[url.index("\ue000") :] if "\ue000" in url else mark

    def _tag(self, node: Tag) -> str:
        markup = node.wiki_markup
        if markup is not None:
            if markup in ("*", "#", ":", ";"):
                return str(markup)
            if markup == "{|":
                self._skip("table", clean(str(node.contents))[:80])
                return "\n"
            return "\n" if markup.startswith("--") else self._code(node.contents)
        name = str(node.tag).strip().casefold()
        if name in ("br", "hr"):
            return " "
        if name in _HIDDEN_TAGS:
            if name == "table":
                self._skip("table", "<table>")
            return ""
        if node.contents is None:
            return ""
        if name in ("ul", "ol"):
            self._depth += 1
            items = self._code(node.contents)
            self._depth -= 1
            return f"\n{items}\n"
        if name == "li":
            return f"\n{'*' * max(1, self._depth)} {self._code(node.contents)}"
        return self._code(node.contents)

    def _template(self, node: Template) -> str:
        name = template_name(str(node.name))
        arguments = Arguments(node, self._code)
        if rule := _TEMPLATES.get(name):
            return rule(arguments)
        if name in _SILENT:
            return ""
        if name == "r":
            return "".join(self._sources.add(None, n) for n in arguments.numbered() if n)
        if name == "#tag:ref":
            content, note = str(arguments.values.get("1", "")), bool(arguments("group"))
            return self._sources.add(content, arguments("name"), note=note)
        if name in ("current events", "current events header"):
            return self._portal_day(arguments)
        if _TRANSCLUDING.match(name):
            self._skip("transclusion", " ".join(str(node).split())[:120])
            return ""
        if name in _BULLETED:
            return "".join(f"\n* {text}" for text in arguments.numbered()) + "\n"
        values = [arguments.values[n] for n in _LIST_FIELDS if n in arguments.values]
        lists = [value for value in values if _LIST_BEGINS.search(str(value))]
        if lists:
            return "".join(f"\n{self._code(value)}\n" for value in lists)
        if self.counting and not _SILENT_LIKE.match(name):
            self.unknown[name] += 1
        return ""

    def _portal_day(self, a: Arguments) -> str:
        """Renders the header of a day of the current events portal as a heading that dates it."""
        content = a.values.get("content")
        day = _date(a("year", 1), a("month", 2), a("day", 3))
        return f"\n;{day}\n{self._code(content) if content is not None else ''}\n"


def _character(node: HTMLEntity) -> str:
    try:
        character = str(node.normalize())
    except ValueError:
        return ""
    return " " if character.isspace() else INVISIBLE.sub("", character)


# What is left of markup that was never closed.
_BROKEN = re.compile(r"[\[\]{}<>]|//|__|https?:|thumb\|", re.I)
_BROKEN_PARTS = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        r"\[\[\s*(?:File|Image)\s*:.*",
        r"</?[a-z][^<>]*>|</?(?:ref|br|small|div|span)\b[^<>]*",
        r"\{\{[^{}|\[\]]*\||\{\{+|\}\}+|\{\||\|\}",
        r"\[\[(?:[^\[\]|]*\|)?|\]\]",
        r"\[?\b(?:https?|ftp):\S*",
        r"\[(?:\d{1,3}|[a-z]|note \d+|citation needed)\]",
        r"__[a-z]+__|thumb\|",
    )
)
# What their removal has put together.
_RESIDUE = re.compile(r"\[\[|\]\]|\{\{|\}\}|<(?=[/a-z])|thumb\||https?:|''|\[\d", re.I)
_QUOTES = re.compile(r"'{2,}")


def clean(text: str) -> str:
    """Returns rendered text without marks, quotes and what is left of broken markup."""
    text = MARK.sub("", text).replace("\ue002", "").replace("\ue003", "")
    if "''" in text:
        text = _unquoted(text)
    if _BROKEN.search(text):
        for part in _BROKEN_PARTS:
            text = part.sub("", text)
        if _RESIDUE.search(text):
            text = re.sub(r"[\[\]{}<>|]|https?:|''+", " ", text, flags=re.I)
    return " ".join(text.split())


def _unquoted(text: str) -> str:
    """Returns a line without bold and italic quotes, by MediaWiki's rules for odd numbers.

    Four quotes are an apostrophe and bold, more than five an apostrophe and both. When bold and
    italics are both left open, one bold is an apostrophe and italics: `''Daily Mail'''s editor`.
    """
    runs = list(_QUOTES.finditer(text))
    lengths = [len(run.group()) for run in runs]
    kept = {i: "'" * (n == 4 or n > 5) for i, n in enumerate(lengths)}
    bold = [i for i, n in enumerate(lengths) if n > 2]
    italic = [i for i, n in enumerate(lengths) if n == 2 or n > 4]
    if len(bold) % 2 and len(italic) % 2:
        before = {i: text[: runs[i].start()][-2:] for i in bold if lengths[i] == 3}
        after_word = [i for i, letters in before.items() if letters[-1:].strip()]
        after_letter = [i for i in after_word if not before[i][:-1].strip()]
        for i in (after_letter or after_word or list(before))[:1]:
            kept[i] = "'"
    numbers = iter(kept.values())
    return _QUOTES.sub(lambda _: next(numbers), text)
