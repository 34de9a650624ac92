import json
import re
import urllib.parse
import urllib.request
from collections import Counter
from html import unescape
from urllib.error import HTTPError

import pytest

from builder.demo import PAGES, REPLIES, Document, documents, serve
from tiebe.prompts import load_prompt

WEB = documents()
PAGE_TEXTS = {path.name: path.read_text("utf-8") for path in sorted(PAGES.glob("*.wiki"))}
ENTRIES = [json.loads(line) for line in REPLIES.read_text("utf-8").splitlines()]
QUESTIONS = [
    pair
    for entry in ENTRIES
    if entry["match"][0] != "Translate the"
    for pair in json.loads(entry["reply"])["questions"]
]


def html(document: Document) -> str:
    charset = "iso-8859-1" if b"charset=iso-8859-1" in document.body else "utf-8"
    return unescape(document.body.decode(charset))


def get(pattern: str, url: str) -> tuple[int, str, bytes]:
    target = pattern.format(url=urllib.parse.quote(url, safe=""))
    try:
        with urllib.request.urlopen(target, timeout=10) as response:
            return response.status, response.headers["Content-Type"], response.read()
    except HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


def test_two_regions_and_two_years() -> None:
    assert list(PAGE_TEXTS) == [
        "2022_in_Brazil.wiki",
        "2022_in_New_Zealand.wiki",
        "2023_in_Brazil.wiki",
        "2023_in_New_Zealand.wiki",
    ]


def test_every_cited_url_has_a_document_and_the_reverse() -> None:
    cited = {
        url
        for text in PAGE_TEXTS.values()
        for url in re.findall(r"(?:\burl=|<ref>|\[|archive-url=)(https://[^\s|\]<]+)", text)
    }
    assert cited == WEB.keys()


def test_no_real_publisher_is_named() -> None:
    hosts = {urllib.parse.urlsplit(url).hostname or "" for url in WEB}
    assert {host for host in hosts if not host.endswith(".example")} == {"web.archive.org"}


def test_everything_says_that_it_was_written_for_the_demonstration() -> None:
    label = "ritten for the demonstration of tiebe-build|scrito para a demonstração de tiebe-build"
    texts = {**PAGE_TEXTS, **{url: html(document) for url, document in WEB.items()}}
    assert [name for name, text in texts.items() if not re.search(label, text)] == []


def test_what_goes_wrong_on_purpose() -> None:
    assert Counter(document.status for document in WEB.values()) == {200: 46, 404: 2}
    walls = [u for u, d in WEB.items() if re.search("Accept all cookies|are human", html(d))]
    assert len(walls) == 2


def test_the_server_answers_as_the_sites_would() -> None:
    with serve() as pattern:
        url = "https://radio-planalto.example/cultura/morre-rita-lee"
        assert get(pattern, url) == (200, "text/html", WEB[url].body)
        assert "rainha do rock".encode("iso-8859-1") in WEB[url].body
        assert get(pattern, "https://radio-planalto.example/robots.txt")[0] == 404
        dead = "https://radio-planalto.example/historia/coracao-dom-pedro-brasilia"
        assert get(pattern, dead)[0] == 404
        replay = f"https://web.archive.org/web/20220823101500id_/{dead}"
        assert "1822" in get(pattern, replay)[2].decode("iso-8859-1")
        index = f"https://web.archive.org/cdx/search/cdx?url={dead}&output=json"
        assert get(pattern, index) == (200, "application/json", b"[]\n")


def test_another_web_can_be_served() -> None:
    web = {"https://a.example/?x=1&y=ä": Document(503, "text/plain", b"busy")}
    with serve(web) as pattern:
        assert get(pattern, "https://a.example/?x=1&y=ä") == (503, "text/plain", b"busy")
        assert get(pattern, "https://a.example/?x=1")[0] == 404


def test_every_article_has_one_reply() -> None:
    articles = [html(document) for document in WEB.values() if document.status == 200]
    replies = [entry["match"] for entry in ENTRIES if entry["match"][0] != "Translate the"]
    found = [[words for words in replies if all(w in text for w in words)] for text in articles]
    assert [len(matches) for matches in found] == [1] * len(articles)
    assert len(replies) == len(articles)


def test_replies_have_the_form_that_the_prompts_ask_for() -> None:
    schema = load_prompt("translate").schema
    assert schema is not None
    for entry in ENTRIES:
        reply = json.loads(entry["reply"])
        pairs = reply["questions"] if "questions" in reply else [reply]
        assert all(list(pair) == schema["required"] and all(pair.values()) for pair in pairs)


def test_every_question_about_brazil_has_its_translation() -> None:
    translated = {e["match"][1]: json.loads(e["reply"]) for e in ENTRIES if len(e["match"]) == 2}
    asked = [pair["question"] for pair in QUESTIONS]
    assert len(set(asked)) == len(asked)
    # The replies about Brazil come first, in the order of their translations.
    assert list(translated) == asked[: len(translated)]
    assert len(translated) == 45
    for pair in QUESTIONS[: len(translated)]:
        native = translated[pair["question"]]
        digits = re.findall(r"\d+", pair["question"].replace("8 January", "8 de janeiro"))
        assert re.findall(r"\d+", native["question"]) == digits


@pytest.mark.parametrize("version", ["paper", "1"])
def test_a_rendered_prompt_meets_its_reply(version: str) -> None:
    url = "https://courier-of-record.example/sport/2022/12/29/pele-dies"
    content = html(WEB[url])
    messages = load_prompt("generate", version).render(
        n_questions=3, event="…", date="2022-12-29", title="…", content=content
    )
    first = next(e for e in ENTRIES if all(m in messages[-1]["content"] for m in e["match"]))
    assert "Albert Einstein" in first["reply"]
