import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tiebe.keyboard import Card, Choice, Decision, Page, serving

CARDS = [Card(str(n), (("Question", f"<b>Who {n}?</b>"), ("Answer", "x"))) for n in range(3)]
CHOICES = [Choice("y", "yes", "it is"), Choice("n", "no", "it is not")]


@pytest.fixture
def kept() -> list[tuple[str, Decision]]:
    return []


@pytest.fixture
def page(kept: list[tuple[str, Decision]]) -> Page:
    def keep(key: str, decision: Decision) -> None:
        if decision.note == "full disk":
            raise OSError("no space left")
        kept.append((key, decision))

    return Page("Test", CARDS, CHOICES, keep, {"0": Decision("no", "before")})


@pytest.fixture
def address(page: Page) -> Iterator[str]:
    with serving(page) as url:
        yield url


def ask(url: str, body: Any = None, **headers: str) -> tuple[int, str, dict[str, str]]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.read().decode(), dict(reply.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), dict(error.headers)


def test_cards_and_earlier_decisions_are_served(address: str) -> None:
    status, html, headers = ask(address)
    assert status == 200 and "default-src 'none'" in headers["Content-Security-Policy"]
    nonce = headers["Content-Security-Policy"].split("script-src 'nonce-")[1].split("'")[0]
    assert html.count(f'nonce="{nonce}"') == 2 and "http:" not in html and "https:" not in html
    data = json.loads(ask(address + "cards")[1])
    assert [card["id"] for card in data["cards"]] == ["0", "1", "2"]
    assert data["decided"] == {"0": {"choice": "no", "note": "before", "fields": {}}}


def test_decisions_are_kept_at_once(
    address: str, page: Page, kept: list[tuple[str, Decision]]
) -> None:
    assert ask(address + "decide", {"id": "1", "choice": "yes", "note": "sure"})[0] == 200
    assert kept == [("1", Decision("yes", "sure"))]
    assert json.loads(ask(address + "cards")[1])["decided"].keys() == {"0", "1"}
    assert not page.ended.is_set()
    ask(address + "end", {})
    assert page.ended.is_set()


def test_what_cannot_be_kept_stays_open(address: str, kept: list[tuple[str, Decision]]) -> None:
    for body in ({"id": "9", "choice": "yes"}, {"id": "1", "choice": "maybe"}, [1], "x"):
        assert ask(address + "decide", body)[0] == 400
    status, said, _ = ask(address + "decide", {"id": "1", "choice": "yes", "note": "full disk"})
    assert status == 400 and said == "no space left" and not kept
    assert ask(address + "decide", {"id": "1", "note": "x" * 100_000})[0] == 404
    assert "1" not in json.loads(ask(address + "cards")[1])["decided"]


def test_only_who_knows_the_address_is_served(address: str) -> None:
    root = address.rsplit("/", 2)[0]
    assert ask(root + "/")[0] == 404 and ask(root + "/guess/cards")[0] == 404
    assert ask(address + "cards", Host="rebound.example")[0] == 404


@pytest.mark.browser
def test_a_person_decides_by_keyboard(
    address: str, page: Page, kept: list[tuple[str, Decision]], browser: Any
) -> None:
    context = browser.new_context()
    tab = context.new_page()
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda said: said.type == "error" and wrong.append(said.text))
    tab.goto(address)
    tab.wait_for_selector("text=Who 1?")  # card 0 is decided already
    assert tab.inner_text("#count") == "1 of 3" and tab.inner_text("dd >> nth=0") == "<b>Who 1?</b>"
    tab.keyboard.press("/")
    tab.keyboard.type("y and n are only letters here")
    tab.keyboard.press("Escape")
    tab.keyboard.press("y")
    tab.wait_for_selector("text=2 of 3")
    tab.keyboard.press("ArrowLeft")
    assert tab.input_value("#note") == "y and n are only letters here"
    tab.keyboard.press("n")
    tab.wait_for_selector("text=Who 2?")
    tab.click("text=it is not")
    tab.wait_for_selector("text=All are decided")
    assert [(key, made.choice) for key, made in kept] == [("1", "yes"), ("1", "no"), ("2", "no")]
    tab.click("#end")
    tab.wait_for_selector("text=You can close this page")
    assert page.ended.is_set() and not wrong
    context.close()


def test_a_choice_may_want_a_reason_and_change_some_fields() -> None:
    kept = {}
    fix = Choice("f", "fix", "mend", note=True, edits=("Answer",))
    page = Page("Test", CARDS, [fix], kept.__setitem__, html="<p>NONCE</p>", more={"size": 3})
    with serving(page) as address:
        status, html, headers = ask(address)
        nonce = headers["Content-Security-Policy"].split("script-src 'nonce-")[1].split("'")[0]
        assert status == 200 and html == f"<p>{nonce}</p>"
        assert json.loads(ask(address + "cards")[1])["size"] == 3
        good = {"id": "1", "choice": "fix", "note": "typo", "fields": {"Answer": "y"}}
        bad = [{"note": " "}, {"fields": {"Question": "y"}}, {"fields": {"Answer": " "}}]
        assert [ask(address + "decide", good | change)[0] for change in bad] == [400, 400, 400]
        assert not kept and ask(address + "decide", good)[0] == 200
    assert kept == {"1": Decision("fix", "typo", {"Answer": "y"})}
