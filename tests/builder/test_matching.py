import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from releases import make

from builder.matching import (
    Carried,
    Rulings,
    carry_on,
    match_events,
    similarity,
    untranslated,
)
from builder.records import Decision, Event, Reference
from tiebe.records import Question, event_id, record_id

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


# ---- what goes on

VERSION = "2025.05"


def question(
    number: int, *flags: str, replaces: str | None = None, language: str = "en"
) -> Question:
    """A row on an event of its own."""
    names = "Alto Baixo Claro Doce Escuro Fundo Grande Hostil Irado Jovem".split()
    of = row(f"The {names[number]} bridge is opened by the governor of {names[number - 1]}.")
    text = f"Who opened the {names[number]} bridge in May 2021?"
    return dataclasses.replace(
        of,
        id=f"q{number}",
        question=text if language == "en" else f"Quem abriu a ponte {names[number]} em 2021?",
        answer=f"Governor {names[number - 1]}",
        language=language,
        flags=flags,
        replaces=replaces,
        since="2025.04",
        version="2025.04",
        page_title="2021 in Brazil",
    )


def both(number: int, *flags: str) -> list[Question]:
    return [question(number), question(number, *flags, language="pt")]


def as_now(of: Question, text: str = "", start: str = "") -> Event:
    return event(text or of.event_desc, start or of.date)


def carried(
    base: list[Question],
    events: list[Event],
    *decisions: Decision,
    found: tuple[str, ...] = (),
) -> Carried:
    def recheck(rows: Sequence[Question]) -> list[Question]:
        return [dataclasses.replace(r, flags=found) for r in rows]

    return carry_on(base, events, Rulings(decisions), VERSION, recheck)


def ids(result: Carried) -> list[str]:
    return [row.id for row in result.rows if row.language == "en"]


OTHER = event("Something else happens elsewhere, on the same page.")


def test_a_row_whose_event_did_not_change_stays_as_it_is() -> None:
    base = both(1)
    result = carried(base, [as_now(base[0])])
    assert list(result.rows) == [dataclasses.replace(r, version=VERSION) for r in base]
    assert base[0].event_id in result.settled and not result.anew and not result.reasons


def test_an_edited_event_gives_its_row_the_new_text() -> None:
    base = both(1)
    now = as_now(base[0], base[0].event_desc + " It is long.", "2021-05-05")
    result = carried(base, [now])
    assert [(r.id, r.event_id, r.event_desc, r.date) for r in result.rows] == [
        ("q1", now.id, now.text, "2021-05-05")
    ] * 2
    assert [r.question for r in result.rows] == [r.question for r in base]
    rejected = carried(base, [now], found=("question_off_event",))
    assert not rejected.rows and rejected.reasons == {"q1": "question_off_event"}
    assert [row.id for row in rejected.anew[now.id]] == ["q1"]


@pytest.mark.parametrize(
    ("flags", "replaces", "stays"),
    [
        (("text_off_event",), None, False),
        (("yes_no", "question_no_year"), None, False),
        (("of_an_older_release",), None, False),
        (("question_no_year",), None, True),
        (("leading_date", "wrong_date"), None, True),
        (("after_april_2025",), None, True),
        (("near_duplicate",), None, True),
        (("text_off_event",), "q0", True),
    ],
)
def test_a_flagged_row_is_written_anew_once(
    flags: tuple[str, ...], replaces: str | None, stays: bool
) -> None:
    of = question(1, *flags, replaces=replaces)
    result = carried([of], [as_now(of)])
    assert (ids(result) == ["q1"]) == stays == (of.event_id in result.settled)
    assert bool(result.anew) != stays
    unread = carried([of], [])  # its page was not read, so there is nothing to write it from
    assert ids(unread) == ["q1"]


def test_of_rows_that_ask_the_same_the_first_stays() -> None:
    one, two = question(1, "duplicate_question"), question(2, "duplicate_question")
    two = dataclasses.replace(two, question=one.question, answer=one.answer)
    result = carried([two, one], [as_now(one), as_now(two)])
    assert ids(result) == ["q1"] and result.reasons == {"q2": "duplicate_question"}


def test_a_removed_event_takes_its_question_along() -> None:
    of = question(1)
    assert carried([of], [OTHER]).reasons == {"q1": "event_removed"}
    assert ids(carried([of], [])) == ["q1"]
    other_year = dataclasses.replace(OTHER, year=2020, start="2020-05-04")
    assert ids(carried([of], [other_year])) == ["q1"]
    assert ids(carried([of], [OTHER], Decision("q1", "keep"))) == ["q1"]


def test_what_is_later_than_the_last_month_is_withdrawn() -> None:
    of = dataclasses.replace(question(1), date="2025-06-01", page_title="2025 in Brazil")
    result = carried([of], [], Decision("q1", "keep"))
    assert not result.rows and result.reasons == {"q1": "after_cutoff"}


def test_a_faulty_translation_is_asked_for_again() -> None:
    base = both(1, "numbers_lost")
    result = carried(base, [as_now(base[0])])
    assert [r.id for r in untranslated(result.rows)] == ["q1"]
    assert result.reasons == {"q1": "numbers_lost"}
    (_, old) = result.complete(result.rows, set())
    assert old.question == base[1].question  # it stays while it could not be paid
    assert len(result.complete(result.rows, {"q1"})) == 1


def test_decisions() -> None:
    base = [*both(1, "numbers_lost"), *both(2), *both(3), question(4, "yes_no"), *both(5)]
    events = [as_now(r) for r in base if r.language == "en"]
    result = carried(
        base,
        events,
        Decision("q1", "keep"),
        Decision("q2", "fix", language="en", question="Who, in 2021?", answer="A. B."),
        Decision("q3", "keep"),
        Decision("q3", "withdraw", "ambiguous"),
        Decision("q4", "keep"),
        Decision("q5", "fix", "a typo", "pt", "Quem, em 2021?", "A. B."),
    )
    english = {r.replaces or r.id: r for r in result.rows if r.language == "en"}
    native = {r.id: r for r in result.rows if r.language == "pt"}
    assert english.keys() == {"q1", "q2", "q4", "q5"}
    assert (english["q2"].question, english["q2"].answer) == ("Who, in 2021?", "A. B.")
    assert english["q2"].id != "q2" and english["q2"].since == VERSION
    assert {r.id for r in untranslated(result.rows)} == {english["q2"].id, "q4"}
    assert native["q1"].question == base[1].question
    assert native["q5"].question == "Quem, em 2021?" and native["q5"].since == "2025.04"
    assert result.reasons == {"q2": "fix", "q3": "ambiguous", "q5": "a typo"}
    assert not result.anew and {e.id for e in events} == set(result.settled)
    assert result.gone == {"q3"}


def test_a_fix_of_the_answer_alone_is_a_new_question_and_stays() -> None:
    fix = Decision("q1", "fix", language="en", question=question(1).question, answer="B.")
    (fixed,) = carried([question(1)], [], fix).rows
    assert fixed.id != "q1" and (fixed.replaces, fixed.answer) == ("q1", "B.")
    base = dataclasses.replace(fixed, flags=("not_grounded",), version=VERSION)
    (again,) = carried([base], [as_now(base)], fix).rows
    assert again == base


def test_the_event_of_a_withdrawn_question_is_closed_for_ever() -> None:
    decision = Decision("q0", "withdraw", event_id=OTHER.id)
    assert OTHER.id in carried([question(1)], [OTHER], decision).settled


def test_a_new_question_names_the_one_that_it_replaces() -> None:
    base = [question(1, "yes_no"), question(1, "yes_no", language="pt")]
    result = carried(base, [as_now(base[0])])
    new = dataclasses.replace(question(2), event_id=base[0].event_id, since=VERSION)
    (row,) = result.with_new([new])
    assert (row.replaces, row.question) == ("q1", new.question) and row.id != new.id
    assert result.complete([row], set()) == [row]
    same = dataclasses.replace(question(1), since=VERSION)
    assert result.with_new([same])[0].id != "q1"


def test_what_could_not_be_paid_stays_and_what_failed_is_withdrawn() -> None:
    base = [question(1, "yes_no"), question(1, "yes_no", language="pt")]
    result = carried(base, [as_now(base[0])])
    rows = result.complete(result.with_new([]), set())
    assert [(r.id, r.language) for r in rows] == [("q1", "en"), ("q1", "pt")]
    assert result.complete([], {base[0].event_id}) == []


def test_decisions_on_rows_of_the_release_that_is_built() -> None:
    new = dataclasses.replace(question(1), since=VERSION, version=VERSION)
    fix = Decision("q1", "fix", language="en", question="Who, in 2021?", answer="B.")
    (row,) = carried([], [], fix).with_new([new])
    assert (row.question, row.replaces) == ("Who, in 2021?", None)
    assert row.id == record_id(new.event_id, "Who, in 2021?")
    assert carried([], [], Decision("q1", "withdraw")).with_new([new]) == []
