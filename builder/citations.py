"""Reads the references of a page: takes them out of the wikitext and says what they cite.

A reference leaves a mark where it stood (`MARK`, in Unicode's private use area), so that it stays
with its bullet whatever becomes of the markup around it, and is read only when an event cites it.
"""

import html
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import mwparserfromhell
from mwparserfromhell.nodes import ExternalLink, Tag, Template, Text
from mwparserfromhell.parser import ParserError

from builder.dates import published
from builder.records import Reference

__all__ = ["MARK", "Sources", "marks", "parse_nodes", "template_name"]

MARK = re.compile("\ue000(\\d+)\ue001")

_REF_TAG = re.compile(r"<ref(?=[\s/>])([^<>]*?)(/?)>|</ref\s*>", re.I)
_ATTRIBUTE = re.compile(
    r"\b(name|group)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'/>][^\s\"'>]*))", re.I
)
# What an unclosed <ref> still covers: the citation behind it, and nothing else.
_CITATION = re.compile(
    r"\s*+(?:\{\{(?:[^{}]++|\{\{[^{}]*+\}\}|\{(?!\{)|\}(?!\}))*+\}\}"
    r"|\[[^\]\n]*+\]|https?://[^\s<]++)"
)
_ARCHIVED = re.compile(
    r"https?://(?:web\.archive\.org/web/\d+[a-z_]*|archive\.(?:today|is|ph|li|fo|vn|md)/[\d.-]+"
    r"|ghostarchive\.org/archive/\w+|(?:www\.)?webcitation\.org/\w+\?url=)/?(?P<live>https?:.*)",
    re.I,
)
_CATALOGUE = re.compile(
    r"https?://(?:[\w-]+\.)*(?:worldcat\.org|issn\.org|isbnsearch\.org)(?:[/?]|$)", re.I
)
_LINK_FIELDS = ("url", "chapter-url", "contribution-url", "article-url", "section-url", "entry-url")
_PUBLISHER_FIELDS = (
    *("work", "website", "newspaper", "publisher", "journal"),
    *("magazine", "periodical", "agency", "encyclopedia"),
)
_SHOWN_FIELDS = {*_PUBLISHER_FIELDS, "title", "chapter", "script-title", "date", "month", "year"}
_SIMPLE_LINK = re.compile(r"\[\[(?:[^\[\]{}|]*\|)?([^\[\]{}|]*)\]\]")
_NESTED = re.compile(r"\{\{|\}\}|\[\[|<")


def parse_nodes(text: str) -> list[Any]:
    """Returns the nodes of wikitext; the text itself where the parser gives up."""
    try:
        # Quotes stay text: a bold that is never closed must not reach over the next bullets.
        nodes: list[Any] = mwparserfromhell.parse(text, skip_style_tags=True).nodes
    except ParserError:
        return [Text(text)]
    return nodes


def template_name(name: str) -> str:
    """Returns a template's name in the one form that tables have."""
    name = " ".join(name.replace("_", " ").split()).casefold()
    return name.removeprefix("template:").strip()


def marks(line: str) -> tuple[int, ...]:
    """Returns the numbers of the references in a line."""
    return tuple(int(number) for number in MARK.findall(line))


class _Cited(NamedTuple):
    """A reference as it stands on the page; without content it reuses the one of its name."""

    name: str | None
    content: str | None
    note: bool


class Sources:
    """The references of a page, by the number in their mark.

    Args:
        warn: Told of what is broken.
        plain: Returns the text that a field's wikitext shows.
    """

    def __init__(self, warn: Callable[[str], None], plain: Callable[[str], str]) -> None:
        self._warn = warn
        self._plain = plain
        self._cited: list[_Cited] = []
        self._named: dict[str, int] = {}
        self._read: dict[int, tuple[Reference, ...]] = {}

    def extract(self, text: str) -> str:
        """Returns wikitext with a mark for each <ref>."""
        pieces: list[str] = []
        at = 0
        tags = list(_REF_TAG.finditer(text))
        for i, tag in enumerate(tags):
            if tag.start() < at:
                continue  # the closing tag of the reference before
            pieces.append(text[at : tag.start()])
            at = tag.end()
            if tag[1] is None:
                continue  # a closing tag of nothing
            content = None
            if not tag[2]:
                following = tags[i + 1] if i + 1 < len(tags) else None
                if following is not None and following[1] is None:
                    content, at = text[at : following.start()], following.end()
                else:
                    citation = _CITATION.match(text, at)
                    content = citation.group() if citation else ""
                    at = citation.end() if citation else at
                    self._warn(f"<ref> is never closed: {content[:80]!r}")
            said = {m[1].lower(): m[2] or m[3] or m[4] or "" for m in _ATTRIBUTE.finditer(tag[1])}
            pieces.append(self.add(content, said.get("name"), note="group" in said))
        pieces.append(text[at:])
        return "".join(pieces)

    def add(self, content: str | None, name: str | None, *, note: bool = False) -> str:
        """Keeps a reference and returns its mark."""
        name = " ".join(name.replace("_", " ").split()) if name else None
        content = content.strip() if content else None
        self._cited.append(_Cited(name, content, note))
        if name and content:
            self._named.setdefault(name, len(self._cited) - 1)
        return f"\ue000{len(self._cited) - 1}\ue001"

    def add_link(self, url: str, label: str | None) -> str:
        """Keeps a link that stands in the text itself and returns its mark."""
        mark = self.add(None, None)
        found: dict[str, Reference] = {}
        _merge(found, _link(url, label))
        self._read[len(self._cited) - 1] = tuple(found.values())
        return mark

    def resolve(self, numbers: Iterable[int]) -> tuple[Reference, ...]:
        """Returns the references of marks in order, each document once."""
        found: dict[str, Reference] = {}
        for number in numbers:
            for reference in self._one(number):
                _merge(found, reference)
        return tuple(found.values())

    def _one(self, number: int) -> tuple[Reference, ...]:
        if number not in self._read:
            name, content, note = self._cited[number]
            found: tuple[Reference, ...] = ()
            if content and not note:
                found = self._citations(content)
            elif name is not None and not note:
                if name not in self._named:
                    self._warn(f"reference {name!r} is nowhere defined")
                    self._named[name] = number
                elif self._named[name] != number:
                    found = self._one(self._named[name])
            self._read[number] = found
        return self._read[number]

    def _citations(self, content: str) -> tuple[Reference, ...]:
        """Returns what the content of a <ref> cites."""
        found: dict[str, Reference] = {}
        if (simple := _simple_template(content)) is not None:
            _merge(found, self._cite(*simple))
        else:
            self._collect(parse_nodes(content), found)
        return tuple(found.values())

    def _collect(self, nodes: Iterable[Any], found: dict[str, Reference]) -> None:
        """Adds the citations and links among nodes."""
        for node in nodes:
            if isinstance(node, Template):
                name = template_name(str(node.name))
                values = {str(p.name).strip().lower(): str(p.value) for p in node.params}
                if name == "webarchive":
                    _merge_archive(found, _url(values.get("url", "")))
                elif name.startswith(("cite ", "citation")) or _url(values.get("url", "")):
                    _merge(found, self._cite(name, values))
                else:
                    for parameter in node.params:
                        self._collect(parameter.value.nodes, found)
            elif isinstance(node, ExternalLink):
                label = self._plain(str(node.title)) if node.brackets and node.title else None
                _merge(found, _link(str(node.url), label))
                if not node.brackets:
                    # A template that touches a bare URL is no part of it, save {{=}} and {{!}}.
                    touching = [n for n in node.url.nodes if isinstance(n, Template)]
                    self._collect((n for n in touching if str(n.name) not in "=!"), found)
            elif isinstance(node, Tag) and node.contents is not None:
                self._collect(node.contents.nodes, found)

    def _cite(self, name: str, values: Mapping[str, str]) -> Reference | None:
        """Returns what a citation template cites; None when it has no link."""

        def value(*names: str) -> str:
            return next((v for n in names if n in values and (v := values[n].strip())), "")

        url = next((u for n in _LINK_FIELDS if (u := _url(values.get(n, "")))), "")
        archive = _url(value("archive-url", "archiveurl"))
        if not url and name in ("cite tweet", "cite twitter"):
            user, number = value("user"), value("number")
            url = f"https://twitter.com/{user}/status/{number}" if user and number else ""
        if not url and (doi := value("doi")):
            url = f"https://doi.org/{html.unescape(doi)}"
        url = url or archive
        if not url:
            return None
        shown = {n: self._plain(v) for n, v in values.items() if n in _SHOWN_FIELDS}
        return Reference(
            url,
            archive or None,
            shown.get("title") or shown.get("chapter") or shown.get("script-title") or None,
            next((shown[n] for n in _PUBLISHER_FIELDS if shown.get(n)), None),
            published(shown.get("date") or f"{shown.get('month', '')} {shown.get('year', '')}"),
        )


def _simple_template(text: str) -> tuple[str, dict[str, str]] | None:
    """Returns name and parameters of a text that is one template without others in it, or None.

    Nearly all references are one; splitting them costs a tenth of parsing them.
    """
    if not (text.startswith("{{") and text.endswith("}}")):
        return None
    inner = text[2:-2].replace("{{!}}", "\ue002").replace("{{=}}", "\ue003")
    inner = _SIMPLE_LINK.sub(r"\1", inner)
    if _NESTED.search(inner):
        return None
    name, *parameters = inner.split("|")
    values = {}
    for number, parameter in enumerate(parameters, start=1):
        key, equals, value = parameter.partition("=")
        if not equals:
            key, value = str(number), key
        values[key.strip().lower()] = value.replace("\ue002", "|").replace("\ue003", "=")
    return template_name(name), values


def _url(raw: str) -> str:
    """Returns the http(s) URL at the beginning of wikitext, or an empty string."""
    raw = raw.strip()
    if "{{" in raw:
        raw = raw.replace("{{=}}", "=").replace("{{!}}", "|").replace("{{'}}", "'")
    raw = re.split(r"[\s<>\"\ue000-\ue003]|\{\{", raw, maxsplit=1)[0].replace("&amp;", "&")
    raw = raw.rstrip("|}") if raw.endswith(("|", "}}")) else raw
    if raw.startswith("//"):
        raw = "https:" + raw
    return raw if re.match(r"https?://[^/]", raw, re.I) else ""


def _link(raw: str, label: str | None) -> Reference | None:
    """Returns the reference that a link alone is; its label without quotation marks around it."""
    if label and len(label) > 1 and label[0] + label[-1] in ('""', "“”", "''", "‘’"):
        label = label[1:-1].strip()
    url = _url(raw)
    return Reference(url, title=label or None) if url else None


def _document(url: str) -> str:
    """Returns what the archived and the live URL of a document have in common."""
    archived = _ARCHIVED.match(url)
    live = archived["live"] if archived else url
    return re.sub(r"^https?://", "", live, flags=re.I).rstrip("/")


def _merge(found: dict[str, Reference], reference: Reference | None) -> None:
    """Adds a reference, or what it knows more, under its document; a catalogue's entry is none."""
    if reference is None or _CATALOGUE.match(reference.url):
        return
    key = _document(reference.url)
    known = found.setdefault(key, reference)
    if known is reference:
        return
    url, archive = known.url, known.archive_url or reference.archive_url
    if _ARCHIVED.match(known.url) and not _ARCHIVED.match(reference.url):
        url, archive = reference.url, archive or known.url
    elif _ARCHIVED.match(reference.url) and not _ARCHIVED.match(known.url):
        archive = archive or reference.url
    found[key] = Reference(
        url,
        archive,
        known.title or reference.title,
        known.publisher or reference.publisher,
        known.published or reference.published,
    )


def _merge_archive(found: dict[str, Reference], archive: str) -> None:
    """Adds an archived copy to the document it is of: the same, else the last one without."""
    if not archive:
        return
    key = _document(archive)
    if key not in found:
        key = next((k for k in reversed(found) if found[k].archive_url is None), key)
    if key not in found:
        found[key] = Reference(archive)
    elif found[key].archive_url is None and found[key].url != archive:
        found[key] = replace(found[key], archive_url=archive)
