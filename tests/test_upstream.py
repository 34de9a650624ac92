import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebe.errors import RecordError
from tiebe.records import event_id
from tiebe.upstream import OldRow, dated_text, parse, questions


@pytest.mark.parametrize(
    ("text", "start", "end", "left"),
    [
        ("4 May  A bridge opens.", "2021-05-04", None, "A bridge opens."),
        ("4 May - A bridge opens.", "2021-05-04", None, "A bridge opens."),
        ("4 May\xa0 A bridge opens.", "2021-05-04", None, "A bridge opens."),
        ("4 MayA bridge opens.", "2021-05-04", None, "A bridge opens."),
        ("4 May 2021 – A bridge opens.", "2021-05-04", None, "A bridge opens."),
        ("4 May 2021 bridge festival", "2021-05-04", None, "2021 bridge festival"),
        ("4  6 May  A fair.", "2021-05-04", "2021-05-06", "A fair."),
        ("46 May  A fair.", "2021-05-04", "2021-05-06", "A fair."),
        ("714 May  A fair.", "2021-05-07", "2021-05-14", "A fair."),
        ("1116 May  A fair.", "2021-05-11", "2021-05-16", "A fair."),
        ("1025 May  A fair.", "2021-05-10", "2021-05-25", "A fair."),
        ("30 May2 June  A fair.", "2021-05-30", "2021-06-02", "A fair."),
        ("30 May — 2 June  A fair.", "2021-05-30", "2021-06-02", "A fair."),
        ("30 December  2 January  A storm.", "2021-12-30", "2022-01-02", "A storm."),
        ("7 July  Not of this section.", "2021-07-07", None, "Not of this section."),
        ("- A bridge opens.", "2021-05", None, "A bridge opens."),
        ("A bridge  opens on 4 May.", "2021-05", None, "A bridge opens on 4 May."),
        ("31 June  An impossible day.", "2021-05", None, "31 June An impossible day."),
        ("4 May 1998 – Of another year.", "2021-05", None, "4 May 1998 – Of another year."),
        ("4 May", "2021-05", None, "4 May"),
        ("12 Mayors meet.", "2021-05", None, "12 Mayors meet."),
        ("99 May bugs.", "2021-05", None, "99 May bugs."),
    ],
)
def test_dates_are_split_off(text: str, start: str, end: str | None, left: str) -> None:
    dated = dated_text(text, 2021, 5)
    assert (dated.start, dated.end, dated.text) == (start, end, left)


@given(st.text(), st.integers(1, 9999), st.integers(1, 12))
def test_any_text_gets_a_date(text: str, year: int, month: int) -> None:
    dated = dated_text(text, year, month)
    assert dated.start.startswith(f"{year:04}")
    assert not text.strip() or dated.text
    assert dated.end is None or dated.end > dated.start


def old(question: str, text: str = "", event: str = "4 May  A bridge opens.") -> OldRow:
    return OldRow("2021", "05", event, question, "Yes", text)


def test_rows_become_questions() -> None:
    english = [old("Which bridge opened?", "The bridge opened on Tuesday."), old("Which one?")]
    native = [old("Qual ponte?"), old("Qual?")]
    rows = questions("Brazil", english, native, version="2025.04")
    assert [(q.language, q.split, q.question) for q, _ in rows] == [
        ("en", "english", "Which bridge opened?"),
        ("pt", "native", "Qual ponte?"),
        ("en", "english", "Which one?"),
        ("pt", "native", "Qual?"),
    ]
    first, first_native = rows[0][0], rows[1][0]
    assert first.id == first_native.id
    assert first.event_id == event_id("Brazil", "2021-05-04", "A bridge opens.")
    assert (first.date, first.year, first.month) == ("2021-05-04", "2021", "05")
    assert first.page_title == "2021 in Brazil"
    assert first.version == first.since == "2025.04"
    assert first.article_id and rows[0][1] == "The bridge opened on Tuesday."
    assert rows[2][0].article_id is None


def test_twins_keep_a_row_each() -> None:
    rows = questions("Brazil", [old("Which?"), old("Which?"), old("Which?")])
    assert len({q.id for q, _ in rows}) == 3


def test_files_that_do_not_pair() -> None:
    with pytest.raises(RecordError, match="1 translated rows for 2 English ones"):
        questions("Brazil", [old("A?"), old("B?")], [old("A?")])


def test_no_month() -> None:
    with pytest.raises(RecordError, match="row 0: no month of a year: '2021', '13'"):
        questions("Brazil", [OldRow("2021", "13", "x", "q", "a")])


def test_lists_and_lines_are_parsed() -> None:
    row = {"year": 2021, "month": "5", "event_desc": "e", "question": "q", "answer": "a"}
    expected = [OldRow(2021, "5", "e", "q", "a")]
    assert parse(json.dumps([row]).encode(), where="f") == expected
    assert parse(json.dumps(row).encode() + b"\n\n", where="f") == expected
    assert questions("Brazil", expected)[0][0].month == "05"


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"[{", "data/english/Brazil.json: not JSON"),
        (b"<html>", "data/english/Brazil.json: not JSON"),
        (b'[{"year": "2021"}]', "Brazil.json: row 0: not a OldRow.*month"),
        (b"[3]", "row 0"),
    ],
)
def test_files_that_are_something_else(raw: bytes, told: str) -> None:
    with pytest.raises(RecordError, match=told):
        parse(raw, where="data/english/Brazil.json")


def test_the_published_rows(shared: Path) -> None:
    """Every leading date and dash that an audit found is split off."""
    import pandas as pd

    table = pd.read_parquet(shared / "upstream/qa.parquet")
    audit = pd.read_csv(shared / "upstream/audit.csv")
    flags = {
        flag: set(zip(rows["region"], rows["row"], strict=True))
        for flag, rows in audit.groupby("flag")
    }
    left = {"leading_date": 0, "leading_dash": 0}
    moved = 0
    for region, rows in table[table["language"] == "english"].groupby("region"):
        fields = rows.sort_values("row")[list(OldRow.__struct_fields__)]
        english = [OldRow(*values) for values in fields.itertuples(index=False)]
        for i, (question, _) in enumerate(questions(str(region), english)):
            dated = len(question.date) == 10
            left["leading_date"] += (region, i) in flags["leading_date"] and not dated
            left["leading_dash"] += question.event_desc[0] in "-–—"
            moved += question.month != english[i].month
    assert left == {"leading_date": 0, "leading_dash": 0}
    assert moved == 7  # the text's own month differs from the row's
