import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.charsets import decode

RUSSIAN = "Президент подписал указ. Совет собрался в понедельник, чтобы обсудить новый закон."
TURKISH = "Başbakan İzmir'de açıklama yaptı; yağış sürüyor, ışıklar söndü, çığ düştü."
CHINESE = "星期一,国家主席在北京会见了来访的客人,双方讨论了贸易问题。"
FRENCH = "L'été dernier, la forêt a brûlé près de la rivière ; des élèves ont été évacués."
HINDI = "प्रधानमंत्री ने सोमवार को नई योजना की घोषणा की।"
AMHARIC = "ጠቅላይ ሚኒስትሩ ሰኞ ዕለት አዲስ እቅድ አስታወቁ።"


def page(text, meta=""):
    return f"<html><head>{meta}<title>{text}</title></head><body><p>{text}</p></body></html>"


@pytest.mark.parametrize(
    ("text", "encoding", "content_type", "meta", "hints"),
    [
        (FRENCH, "utf-8", "text/html", "", ()),
        (FRENCH, "utf-8", "text/html; charset=iso-8859-1", "", ()),
        (FRENCH, "cp1252", "text/html; charset=iso-8859-1", "", ()),
        (FRENCH, "cp1252", "text/html; charset=utf-8", "", ()),
        (FRENCH, "cp1252", "text/html", "", ("windows-1251",)),
        (FRENCH, "cp1252", "text/html; charset=windows-1251", "", ()),
        (FRENCH, "utf-16", "text/html", "", ()),
        (FRENCH, "utf-16-le", "text/html; charset=utf-16le", "", ()),
        (RUSSIAN, "cp1251", "text/html; charset=windows-1251", "", ()),
        (RUSSIAN, "cp1251", "text/html; charset=iso-8859-1", "", ()),
        (RUSSIAN, "cp1251", "text/html; charset=koi8-r", "", ()),
        (RUSSIAN, "cp1251", "text/html", '<meta charset="windows-1251">', ()),
        (
            RUSSIAN,
            "cp1251",
            "text/html; charset=ISO-8859-1",
            '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">',
            (),
        ),
        (RUSSIAN, "cp1251", "text/html", "", ("windows-1251", "koi8-r")),
        (RUSSIAN, "koi8-r", "text/html", "", ("windows-1251", "koi8-r")),
        (RUSSIAN, "utf-8", "text/html; charset=windows-1251", "", ()),
        (TURKISH, "cp1254", "text/html", "", ("windows-1254",)),
        (TURKISH, "cp1254", "text/html; charset=iso-8859-1", "", ("windows-1254",)),
        (TURKISH, "cp1254", "text/html; charset=iso-8859-9", "", ()),
        (CHINESE, "gb18030", "text/html; charset=gb2312", "", ()),
        (CHINESE, "gb18030", "text/html", "", ("gb18030", "big5")),
        (CHINESE, "gb18030", "text/html; charset=utf-8", "", ("gb18030",)),
        (CHINESE, "gb18030", "text/html; charset=iso-8859-1", "", ()),
        (HINDI, "utf-8", "text/html; charset=iso-8859-1", "", ()),
        (AMHARIC, "utf-8", "text/html; charset=windows-1252", "", ()),
        (RUSSIAN, "cp1251", "text/html; charset=no-such-thing", "<meta charset=neither>", ()),
    ],
)
def test_a_wrong_or_missing_charset_gives_the_right_text(text, encoding, content_type, meta, hints):
    body = page(text * 3, meta).encode(encoding)
    assert decode(body, content_type, hints) == page(text * 3, meta)


@pytest.mark.parametrize("label", ["shift_jis", "euc-jp", "iso-2022-jp"])
def test_japanese_in_its_three_encodings(label):
    text = page("月曜日、首相は新しい計画を発表した。" * 3)
    assert decode(text.encode(label), f"text/html; charset={label}") == text


def test_one_broken_byte_does_not_change_the_encoding():
    body = page(RUSSIAN * 20).encode().replace(b"\xd0", b"", 1)
    assert RUSSIAN in decode(body, "text/html; charset=windows-1251")


@given(st.binary(max_size=400), st.text(max_size=60), st.sampled_from([(), ("windows-1251",)]))
def test_any_bytes_are_decoded(body, content_type, hints):
    assert isinstance(decode(body, content_type, hints), str)


def test_decoding_takes_no_longer_for_unclosed_markup():
    start = time.monotonic()
    decode(("<script <" * 200_000 + RUSSIAN).encode("cp1251"), "text/html", ("windows-1251",))
    assert time.monotonic() - start < 10
