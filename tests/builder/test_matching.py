import dataclasses
import random
from pathlib import Path

import pytest
from releases import make

from builder.matching import match_events, similarity
from builder.records import Event, Reference
from tiebe.records import Question, event_id

BASE = make(1, ("Brazil",))[0][0]


def row(text: str, date: str = "2021-05-04", url: str = "") -> Question:
    return dataclasses.replace(
        BASE, event_id=event_id("Brazil", date, text), date=date, event_desc=text, source_url=url
    )


def event(text: str, start: str | None = "2021-05-04", *urls: str, region: str = "Brazil") -> Event:
    references = tuple(Reference(url) for url in urls)
    return Event(region, 2021, "p", "2021 in Brazil", 7, start, None, "day", text, references)


LINE = "The governor of the state opens the longest suspension bridge of the country."


@pytest.mark.parametrize(
    ("now", "how"),
    [
        (event(LINE), "same"),
        (event(LINE.upper().replace(" of ", "  of ")), "same"),
        (event(LINE.replace("longest", "second-longest")), "text"),
        (event(LINE, "2021-05-05"), "text"),
        (event(LINE, "2021-06-01"), "text"),
        (event(LINE, "2021-08-01"), None),
        (event(LINE, None), None),
        (event(LINE, region="Portugal"), None),
        (event("A suspension bridge, the longest of the country, is opened by the governor of the "
               "state.", "2021-05-04", "https://news.example/bridge"), "reference"),
        (event("The governor opens a bridge, the longest of the country.", "2021-05-04",
               "http://www.news.example/bridge/#comments"), "reference"),
        (event("The governor opens a bridge, the longest of the country.", "2021-05-04",
               "https://web.archive.org/web/20210505id_/https://news.example/bridge"), "reference"),
        (event("The governor opens a bridge, the longest of the country."), None),
        (event("Eleven people drown.", "2021-05-04", "https://news.example/bridge"), None),
    ],
)  # fmt: skip
def test_one_event(now: Event, how: str | None) -> None:
    matches = match_events([row(LINE, url="https://news.example/bridge")], [now])
    assert [match.how for match in matches] == ([how] if how else [])


def test_the_likeliest_wins_and_each_is_taken_once() -> None:
    base = [row(LINE), row(LINE + " It is 3 km long.")]
    now = [event(LINE + " It is 4 km long."), event(LINE + " It is short.")]
    matches = {match.event_id: match.base_event_id for match in match_events(base, now)}
    assert matches[now[0].id] == base[1].event_id
    assert len(set(matches.values())) == len(matches)


def test_equal_ids_are_not_taken_from() -> None:
    base = [row(LINE)]
    now = [event(LINE + "!!"), event(LINE + " Again."), event(LINE.replace("state", "State"))]
    assert now[0].id == base[0].event_id
    (match,) = match_events(base, now)
    assert match.how == "same"


def test_similarity() -> None:
    assert similarity("A b, c!", "a  B c") == 1
    assert similarity("one", "") == 0


def test_real_events_edited(shared: Path) -> None:
    """Of real lines, every tenth edited as editors do, nearly all are known and none confused."""
    import pandas as pd

    table = pd.read_parquet(shared / "upstream/events.parquet")
    table = table[table["region"].isin(["Brazil", "Nigeria", "World"])]
    draw = random.Random(20)
    base, now, true = [], [], {}
    for line in table.itertuples():
        if not isinstance(line.start_date, str) or len(line.event_text) < 30:
            continue
        day, month, year = line.start_date.split("/")
        old = Event(
            line.region, int(year), "p", "t", 1, f"{year}-{month}-{day}", None, "day",
            " ".join(line.event_text.split()),
        )  # fmt: skip
        kind = draw.choice(["same"] * 8 + ["edited", "gone"])
        base.append(
            dataclasses.replace(
                BASE,
                region=old.region,
                event_id=old.id,
                date=old.start or "",
                event_desc=old.text,
                source_url="",
            )
        )
        if kind == "gone":
            continue
        if kind == "edited":
            words = old.text.split()
            at = draw.randrange(len(words))
            edit = draw.choice(["typo", "add", "day"])
            if edit == "typo":
                words[at] = words[at] + "s"
            elif edit == "add":
                words[at] += " very"
            start = f"{year}-{month}-{1 + int(day) % 28:02}" if edit == "day" else old.start
            old_id, old = old.id, dataclasses.replace(old, text=" ".join(words), start=start)
            true[old.id] = old_id
        else:
            true[old.id] = old.id
        now.append(old)
    matches = {match.event_id: match.base_event_id for match in match_events(base, now)}
    wrong = [pair for pair in matches.items() if true.get(pair[0]) != pair[1]]
    missed = true.keys() - matches.keys()
    assert len(base) > 2000 and len(true) > 1800
    assert not wrong
    assert not missed
