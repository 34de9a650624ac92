"""Decodes strangers' documents, whatever they declare."""

import re
from collections.abc import Iterable

__all__ = ["decode"]

_META = re.compile(rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""", re.IGNORECASE)
_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_MARKUP = re.compile(r"<[^<>]*>")  # linear, whatever a stranger leaves unclosed
_WORD = re.compile(r"[^\W\d_]+")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_OTHER = re.compile(r"[\u0370-\u06ff]")  # Greek to Arabic: scripts that no Latin word is mixed with
# What Cyrillic looks like in the other Cyrillic encoding: small and capital letters swapped.
_CASE = re.compile(r"[а-яё][А-ЯЁ]|^[А-ЯЁ]{3,}$")


def decode(body: bytes, content_type: str = "", encodings: Iterable[str] = ()) -> str:
    """Returns a document's text.

    A byte order mark decides, then valid UTF-8, then the charset of the header, that of the
    document, those of the region's language, what the bytes look like. One that gives letters which
    stand in no language's words is passed over: servers say iso-8859-1 when they do not know.

    Args:
        body: The document.
        content_type: Its header.
        encodings: What to expect by the region's language, likeliest first.
    """
    from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

    for mark, wide in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(wide, "replace")
    declared = []
    if found := _CHARSET.search(content_type):
        declared.append(found[1])
    head = body[:8192]
    declared += [
        m[1].decode("ascii", "replace") for m in (_XML.search(head), _META.search(head)) if m
    ]
    names = [name for label in declared if (name := map_encoding_to_html5(label, False))]
    for name in names:
        in_pairs = name.startswith("utf-16") and b"\0" in body[:200]
        if in_pairs or (name.startswith("iso2022") and b"\x1b" in body):
            return body.decode(name, "replace")
    text = body.decode("utf-8", "replace")
    foreign = len(text) - len(text.encode("ascii", "ignore"))
    if text.count("\ufffd") <= foreign / 10:
        return text
    hints = list(encodings)
    looks = map_encoding_to_html5(detect_encoding(body) or "cp1252", False) or "cp1252"
    expected = [looks] if looks in {map_encoding_to_html5(hint, True) for hint in hints} else []
    if names[:1] == ["cp1252"]:
        names = [*expected, *names]
    best, least = text, 2.0
    for name in dict.fromkeys([*names, *expected, *hints, looks, "cp1252"]):
        if name == "utf-8":
            continue
        text = body.decode(name, "replace")
        odd = _oddness(text)
        if odd < 0.3 or (name == looks and name in names):
            return text
        if odd < least:
            best, least = text, odd
    return best


def _oddness(text: str) -> float:
    """How much of a text's foreign words look wrongly decoded, 0 to 1."""
    sample = _MARKUP.sub(" ", text[:300_000])
    words = [word for word in _WORD.findall(sample) if not word.isascii()][:2000]
    if not words:
        return 0.0 if "\ufffd" not in sample else 1.0
    letters = sum(map(len, words))
    latin = sum(len(word) for word in words if _LATIN.match(word) and not _OTHER.search(word))
    plain = sum(c.isascii() for word in words for c in word)
    soup = latin > letters / 2 and plain < 0.4 * latin
    odd = sum(
        bool((_LATIN.search(word) and _OTHER.search(word)) or _CASE.search(word)) for word in words
    )
    odd += sample.count("\ufffd") + sum("\x80" <= c <= "\x9f" for c in sample)
    return 1.0 if soup else min(1.0, odd / len(words))
