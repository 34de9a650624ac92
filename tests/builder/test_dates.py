"""builder.dates: what is a prefix, and what only looks like one."""

import pytest

from builder.dates import Context, read_prefix, resolve

JANUARY = Context(page_year=2020, year=2020, month=1)


def dated(line: str, context: Context = JANUARY) -> tuple[str, str] | None:
    """`start..end` and the text of a line; None when it has no prefix."""
    prefix = read_prefix(line, context.page_year)
    dates = resolve(prefix, context)[0] if prefix else None
    if prefix is None or dates is None:
        return None
    return f"{dates.start}..{dates.end}" if dates.end else dates.start, line[prefix.end :]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("4 January – A", ("2020-01-04", "A")),
        ("January 4: A", ("2020-01-04", "A")),
        ("4 January", ("2020-01-04", "")),
        ("4th of January – A", ("2020-01-04", "A")),
        ("Sat., 4 January – A", ("2020-01-04", "A")),
        ("late January – A", ("2020-01", "A")),
        ("Mid-January: A", ("2020-01", "A")),
        ("End of January – A", ("2020-01", "A")),
        ("4 January 2020 – 2020 starts", ("2020-01-04", "2020 starts")),
        ("January 4, 2020 Somebody wins", ("2020-01-04", "Somebody wins")),
        ("January 18, 2000 people march", ("2020-01-18", "2000 people march")),
        ("4 January, somebody wins", ("2020-01-04", "somebody wins")),
        ("4 January–Somebody wins", ("2020-01-04", "Somebody wins")),
        ("4 January 2020 The mayor wins", ("2020-01-04", "The mayor wins")),
        ("4 January 2020 Faro Cup begins", ("2020-01-04", "2020 Faro Cup begins")),
        ("4 January, 2020 census begins", ("2020-01-04", "2020 census begins")),
        ("January The mayor wins", ("2020-01", "The mayor wins")),
        ("January–12 people win", ("2020-01", "12 people win")),
        ("the 4th, Somebody wins", ("2020-01-04", "Somebody wins")),
        ("January 4–21st Century Fox wins", ("2020-01-04", "21st Century Fox wins")),
        ("January 4–6–12 people win", ("2020-01-04..2020-01-06", "12 people win")),
        ("25 December 2019 to 4 January 2020 Rain", ("2019-12-25..2020-01-04", "Rain")),
        ("4: A", ("2020-01-04", "A")),
        ("4 - A", ("2020-01-04", "A")),
        ("4–6 – A", ("2020-01-04..2020-01-06", "A")),
        ("4, 5 January – A", None),
        ("5 & 6 January – A", ("2020-01-05..2020-01-06", "A")),
        ("28 December – 4 January – A", ("2019-12-28..2020-01-04", "A")),
        ("28 December – 4 January 2021 – A", ("2020-12-28..2021-01-04", "A")),
        ("January/February – A", ("2020-01..2020-02", "A")),
        ("28 January – February – A", ("2020-01-28..2020-02", "A")),
    ],
)
def test_prefix(line: str, expected: tuple[str, str] | None) -> None:
    assert dated(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "On 4 January – A",
        "4 January is a holiday",
        "January 6 committee meets",
        "January 6-style riot",
        "4 January's vote",
        "May announces a plan",
        "May, who resigned, is back",
        "March for Life",
        "March-based firm",
        "4 people are hurt",
        "4-year-old is found",
        "4–6 people are hurt",
        "4,000 people march",
        "4.5 million people vote",
        "10:30 – A",
        "2020 ends",
        "2020-13-01 – A",
        "Januaryish",
        "The 4th estate",
        "",
    ],
)
def test_no_prefix(line: str) -> None:
    assert dated(line) is None


def test_a_day_alone_needs_a_month() -> None:
    assert dated("4: A", Context(2020, 2020, None)) is None
    assert dated("4 March: A", Context(2020, 2020, None)) == ("2020-03-04", "A")


def test_a_heading_of_another_year() -> None:
    assert dated("4: A", Context(2020, 2021, 1)) == ("2021-01-04", "A")
    assert dated("4: A", Context(2020, 2022, 1)) is None
