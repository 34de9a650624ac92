"""The audit page as people meet it: browsed in chromium, with hostile text in it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rows import ARTICLES, NATIVE, ROW

from builder.audit import PAGE_SIZE, Stored, cards, write_audit
from tiebe.records import Question

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.browser

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<!-- {{ 7 * 7 }} NONCE \u202e\u0000 \ud800 & 'quotes\" `${1}`"
)


def many(count: int = 60) -> list[Question]:
    """Good rows, flagged ones, and one whose every text is hostile."""
    made = []
    for n in range(count):
        flags = ("yes_no",) if n % 4 == 0 else ()
        region = "Germany" if n % 3 else "Nigeria"
        row = replace(ROW, id=f"q{n:02}", region=region, flags=flags, question=f"Who built {n}?")
        made.append(row)
        if region == "Germany":
            made.append(replace(NATIVE, id=row.id, flags=(*flags, "numbers_lost")))
    worst = replace(
        ROW,
        id="worst",
        question=HOSTILE,
        answer=HOSTILE,
        event_desc=HOSTILE,
        source_url="javascript:document.title='owned'",
        source_title=HOSTILE,
        article_id="bad",
        flags=tuple(f"flag_{HOSTILE}_{n}" for n in range(5)),
    )
    return [*made, worst]


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    articles = ARTICLES | {"bad": Stored(HOSTILE, "data:text/html,x", HOSTILE * 90)}
    write_audit(tmp_path, many(), articles, title=f"Audit {HOSTILE[:40]}")
    opened = browser.new_page(viewport={"width": 1300, "height": 900})
    logged: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: logged.append(message.text))
    opened.on("pageerror", lambda error: logged.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto((tmp_path / "audit.html").as_uri())
    opened.wait_for_selector("body[data-ready]")
    yield opened
    assert logged == []
    assert len(asked) == 1 and asked[0].startswith("file:")
    assert opened.title().startswith("Audit </script>")
    opened.close()


def test_counts_filters_and_the_text_beside_the_question(page: Any, tmp_path: Path) -> None:
    assert page.locator("#rows > li").count() == PAGE_SIZE
    assert page.locator("#page").inner_text() == "1–25 of 61 (61 in all)"
    first = page.locator("#rows > li").nth(1)
    assert "Who built" in first.inner_text() and "Varnholm celebrated" in first.inner_text()
    assert first.locator("mark").all_inner_texts() == ["Ilse", "Tarrant"]
    counts = dict(
        row.inner_text().split("\t")[:2] for row in page.locator("#counts tbody tr").all()
    )
    assert (counts["yes_no"], counts["numbers_lost"]) == ("15", "40")
    page.get_by_role("button", name="yes_no").click()
    assert page.locator("#page").inner_text() == "1–15 of 15 (61 in all)"
    page.locator("select[name=region]").select_option("Nigeria")
    assert page.locator("#page").inner_text() == "1–5 of 5 (61 in all)"
    page.locator("select[name=flag]").select_option("none")
    assert page.locator("#page").inner_text() == "1–15 of 15 (61 in all)"
    page.locator("select[name=region]").select_option("")
    page.get_by_label("search").fill("BUILT 57?")
    sync_api.expect(page.locator("#rows > li")).to_have_count(1)
    page.locator("select[name=flag]").select_option("")
    assert "Who built 57?" in page.locator("#rows").inner_text()
    assert not page.locator("[data-choice]").count()


def test_pages_are_turned_by_keys_and_buttons(page: Any) -> None:
    page.keyboard.press("ArrowRight")
    assert page.locator("#page").inner_text() == "26–50 of 61 (61 in all)"
    page.get_by_role("button", name="Next").click()
    assert page.locator("#rows > li").count() == 11
    assert page.get_by_role("button", name="Next").is_disabled()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#page").inner_text().startswith("26–50")


def test_hostile_text_is_text(page: Any) -> None:
    worst = page.locator("#row-worst")
    assert worst.locator("dd").first.inner_text().startswith("</script><script>")
    assert not page.locator("img, iframe, #row-worst a").count()
    assert page.evaluate("document.scripts.length") == 2


def test_the_page_is_accessible(browser: Any, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    write_audit(tmp_path, many(), ARTICLES, title="Audit")
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, bypass_csp=True)
        opened = context.new_page()
        opened.goto((tmp_path / "audit.html").as_uri())
        opened.wait_for_selector("body[data-ready]")
        found = axe.Axe().run(opened).response["violations"]
        assert [(fault["id"], fault["nodes"][0]["html"][:80]) for fault in found] == []
        context.close()


def test_a_page_of_nothing(browser: Any, tmp_path: Path) -> None:
    write_audit(tmp_path, [], {}, title="Audit")
    opened = browser.new_page()
    opened.goto((tmp_path / "audit.html").as_uri())
    opened.wait_for_selector("body[data-ready]")
    assert opened.locator("#page").inner_text() == "Nothing matches the filters."
    opened.close()
    assert (tmp_path / "audit.jsonl").read_text() == ""


def test_the_same_rows_give_the_same_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_audit(tmp_path / name, many(), ARTICLES, title="Audit")
    for file in ("audit.html", "audit.jsonl"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    lines = (tmp_path / "a" / "audit.jsonl").read_text("utf-8").splitlines()
    assert (
        json.loads(lines[-1])["question"]
        == HOSTILE.encode("utf-8", "backslashreplace").decode("utf-8")
        or json.loads(lines[-1])["id"] == "worst"
    )


def test_the_most_flagged_card_is_first_and_has_both_languages() -> None:
    shown = cards(many(), ARTICLES)
    assert shown[0].id == "worst" and len(shown) == 61
    assert [len(card.flags) for card in shown] == sorted(
        (len(card.flags) for card in shown), reverse=True
    )
    both = next(card for card in shown if card.facts[2] == "German")
    assert [field.lang for field in both.fields] == ["en", "en", "de", "de", ""]
    assert both.facts == ("Germany", "2021", "German")
