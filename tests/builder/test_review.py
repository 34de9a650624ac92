"""Deciding on rows by keyboard, in chromium."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from releases import make

from builder.audit import read_sources
from builder.records import Decision
from builder.release import Edition, read_questions, write_release
from builder.review import DECISIONS, kept, read_decisions, review
from tiebe.errors import RecordError
from tiebe.keyboard import serving


@pytest.fixture
def release(tmp_path: Path) -> Path:
    rows, articles = make(6)
    rows = [replace(row, answer="<b>bold</b>" if "3" in row.answer else row.answer) for row in rows]
    write_release(tmp_path / "release", rows, articles, Edition("2025.04"))
    return tmp_path / "release"


@pytest.fixture
def page(browser: Any, release: Path) -> Iterator[Any]:
    made = review(release, list(read_questions(release)), read_sources(release))
    with serving(made) as address:
        opened = browser.new_page(viewport={"width": 1300, "height": 900})
        logged: list[str] = []
        opened.on("console", lambda message: logged.append(message.text))
        opened.on("pageerror", lambda error: logged.append(str(error)))
        opened.goto(address)
        opened.wait_for_selector("body[data-ready]")
        yield opened
        assert [line for line in logged if "400" not in line] == []
        opened.close()


def lines(release: Path) -> list[dict[str, Any]]:
    path = release / DECISIONS
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def shown(page: Any) -> str:
    identity: str = page.locator("#rows > li").get_attribute("id")
    return identity.removeprefix("row-")


def decided(page: Any, count: int) -> None:
    page.wait_for_selector(f"#progress:has-text('{count} of ')")


@pytest.mark.browser
def test_keep_fix_and_withdraw_by_keyboard(page: Any, release: Path) -> None:
    rows = {row.id: row for row in read_questions(release, splits=["english"])}
    assert page.locator("#rows > li").count() == 1
    first = shown(page)
    assert rows[first].flags == ("near_duplicate",), "the flagged rows come first"
    page.keyboard.press("k")
    decided(page, 1)
    second = shown(page)
    assert second != first and lines(release)[0]["decision"] == "keep"

    page.keyboard.press("w")
    page.keyboard.press("Enter")  # without a reason
    assert page.locator("#rows input[name=note]").evaluate("node => node.validity.valueMissing")
    page.keyboard.type("on another event: w k f")
    page.keyboard.press("Enter")
    decided(page, 2)
    assert lines(release)[1] | {"at": ""} == {
        "id": second,
        "decision": "withdraw",
        "reason": "on another event: w k f",
        "language": "",
        "question": "",
        "answer": "",
        "at": "",
        "event_id": rows[second].event_id,
    }

    third = shown(page)
    page.keyboard.press("f")
    area = page.locator("textarea[name='english.question']")
    assert area.input_value() == rows[third].question
    area.fill("What was it, then?")
    page.locator("input[name=note]").fill("clearer")
    page.keyboard.press("Enter")
    decided(page, 3)
    fixed = lines(release)[2]
    assert (fixed["decision"], fixed["language"], fixed["reason"]) == ("fix", "en", "clearer")
    assert (fixed["question"], fixed["answer"]) == ("What was it, then?", rows[third].answer)

    page.keyboard.press("ArrowLeft")
    assert shown(page) == third and "What was it, then?" in page.locator("#rows").inner_text()
    assert "fix: clearer" in page.locator("#rows header").inner_text()


@pytest.mark.browser
def test_what_changes_nothing_is_no_fix(page: Any, release: Path) -> None:
    page.keyboard.press("f")
    page.locator("input[name=note]").fill("because")
    page.keyboard.press("Enter")
    page.wait_for_selector("#error:not(:empty)")
    assert "nothing was changed" in page.locator("#error").inner_text()
    assert not (release / DECISIONS).exists()
    page.keyboard.press("Escape")
    assert not page.locator("#rows form").count()


@pytest.mark.browser
def test_decisions_of_before_are_shown_and_can_be_filtered(browser: Any, release: Path) -> None:
    rows = list(read_questions(release))
    native = next(row for row in rows if row.split == "native")
    (release / DECISIONS).write_bytes(
        json.dumps(
            {"id": native.id, "decision": "fix", "reason": "word order", "language": "pt",
             "question": "O que foi?", "answer": "Isto"}
        ).encode() + b"\n"
    )  # fmt: skip
    made = review(release, rows, read_sources(release))
    with serving(made) as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        page.locator("select[name=decision]").select_option("decided")
        assert shown(page) == native.id
        assert "O que foi?" in page.locator("#rows").inner_text()
        page.locator("select[name=decision]").select_option("open")
        assert page.locator("#page").inner_text() == "1 of 17 (18 in all)"
        page.close()


def test_decisions_are_read_in_order_and_the_last_counts(tmp_path: Path) -> None:
    assert read_decisions(tmp_path) == []
    wanted = [Decision("a", "keep"), Decision("b", "keep"), Decision("a", "withdraw", "late")]
    (tmp_path / DECISIONS).write_text(
        "".join(
            json.dumps({"id": d.id, "decision": d.decision, "reason": d.reason}) + "\n"
            for d in wanted
        )
    )
    assert read_decisions(tmp_path) == wanted and kept(wanted) == {"b"}
    with (tmp_path / DECISIONS).open("a") as file:
        file.write('{"id": "c", "decision": "perhaps"}\n')
    with pytest.raises(RecordError, match=r"decisions.jsonl:4: not a decision"):
        read_decisions(tmp_path)


def test_a_decision_is_on_disk_before_it_is_answered(release: Path) -> None:
    from tiebe import keyboard

    rows = list(read_questions(release))
    made = review(release, rows, {})
    both = next(row.id for row in rows if row.split == "native")
    fields = {"english.answer": " New ", "native.answer": "Novo"}
    made.keep(both, keyboard.Decision("fix", " two \n words ", fields))
    found = read_decisions(release)
    assert [(d.language, d.answer, d.reason) for d in found] == [
        ("en", "New", "two words"),
        ("pt", "Novo", "two words"),
    ]
    again = review(release, rows, {})
    assert again.decided[both].fields["native.answer"] == "Novo"
    assert again.decided[both].fields["english.answer"] == "New"
