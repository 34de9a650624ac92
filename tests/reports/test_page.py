"""The page as people meet it: drawn by chromium, clicked through, measured."""

import base64
import gzip
import json
import re
import sys
import time

import pandas as pd
import pytest

from tiebe.errors import RecordError, TiebeError
from tiebe.regions import REGIONS
from tiebe.reports import report
from tiebe.reports.page import TILES, _library

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.browser
FULL = 37_233


class Page:
    """A page that was opened, with all that it logged and asked for."""

    def __init__(self, browser, path, *, width=1366, scheme="light"):
        self.context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 860}
        )
        self.page = self.context.new_page()
        self.logged, self.requests, self.dialogs = [], [], []
        self.page.on("console", lambda message: self.logged.append(message.text))
        self.page.on("pageerror", lambda error: self.logged.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog), dialog.dismiss()))
        start = time.monotonic()
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#figure-ranking svg")
        self.page.wait_for_selector("#results .result")
        self.seconds = time.monotonic() - start

    def scroll_through(self):
        for chart in self.page.locator("[data-chart]").all():
            chart.evaluate("node => node.scrollIntoView({behavior: 'instant'})")
            sync_api.expect(chart).to_have_attribute("data-drawn", "true", timeout=20_000)

    def quiet(self):
        assert self.logged == []
        assert self.dialogs == []
        assert len(self.requests) == 1 and self.requests[0].startswith("file:")
        return True


def cut_off(page):
    """The labels of legends that reach beyond their chart."""
    return page.evaluate(
        """[...document.querySelectorAll("[data-chart] svg")].flatMap(svg => {
            const edge = svg.getBoundingClientRect().right;
            return [...svg.querySelectorAll(".role-legend text")]
                .filter(text => text.getBoundingClientRect().right > edge)
                .map(text => text.textContent);
        })"""
    )


def counted(page, start):
    """Waits until the number of answers begins so."""
    sync_api.expect(page.locator("#count")).to_have_text(re.compile(f"^{start}"))


@pytest.fixture(scope="module")
def more(verdicts):
    """What a report can be given besides verdicts."""
    labels = [row | {"correct": True} for row in verdicts[:40]]
    survey = pd.DataFrame(
        {"country": [f"C{i}" for i in range(60)], "events": [i**2 for i in range(60)]}
    )
    tier = survey["events"].map(lambda n: "0" if n == 0 else "1–64" if n < 65 else "65+")
    return {"labels": labels, "survey": survey.assign(tier=tier)}


@pytest.fixture(scope="module")
def folder(verdicts, more, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    report(verdicts, out, **more)
    return out


@pytest.fixture
def opened(browser, folder):
    pages = []

    def open_(path=folder / "index.html", **settings):
        pages.append(Page(browser, path, **settings))
        return pages[-1]

    yield open_
    for page in pages:
        page.context.close()


def test_every_chart_has_its_table_and_a_csv_beside_the_page(opened, folder):
    it = opened()
    it.scroll_through()
    charts = it.page.locator("[data-chart]")
    assert charts.count() >= 15
    for figure in it.page.locator("figure.card").all():
        link = figure.locator(".foot a").get_attribute("href")
        assert len(pd.read_csv(folder / link)) > 0
        details = figure.locator("details")
        if details.count():
            details.locator("summary").evaluate("node => node.click()")
            sync_api.expect(details.locator("tbody tr").first).to_be_attached()
    assert it.quiet()


def test_the_first_screen_answers_the_question(opened):
    page = opened().page
    assert "3 models remember of the events of 6 regions, 2015–2025" in page.inner_text("h1")
    assert "GPT-4.1 knows most" in page.inner_text(".answers")
    for figure in ("ranking", "map", "drop_at_cutoff"):
        box = page.locator(f"#figure-{figure}").bounding_box()
        assert box["y"] + box["height"] < 860, f"{figure} is not on the first screen"
    assert "65.6%" in page.text_content("#figure-ranking svg")


def test_switches_change_figures(opened):
    page = opened().page
    cell = "#figure-regions_by_model tbody tr:has(th:has-text('Ethiopia')) td >> nth=0"
    before = page.inner_text(cell)
    page.check("input[name=split][value=native]")
    native = page.inner_text(cell)
    page.check("input[name=events][value='before 2023']")
    assert len({before, native, page.inner_text(cell)}) == 3
    assert page.locator("#figure-regions_by_model tbody tr").count() == 3  # with a native language


def test_the_map_tells_of_a_region_and_leads_to_its_answers(opened):
    it = opened()
    page = it.page
    page.get_by_role("button", name=re.compile("^Ethiopia:")).click()
    assert "Ethiopia" in page.inner_text("#map-detail")
    assert "behind United States" in page.inner_text("#map-detail")
    page.get_by_role("button", name="Read its answers").click()
    assert page.locator("select[name=region]").input_value() == "Ethiopia"
    assert "Ethiopia" in page.inner_text(".result header >> nth=0")
    page.select_option("#map-model", "own")
    assert it.quiet()


def test_a_year_table_of_one_region(opened):
    page = opened().page
    n = "#figure-years_by_region_and_model thead small >> nth=0"
    pooled = page.inner_text(n)
    page.select_option("#year-region", "Brazil")
    assert page.inner_text(n) == "n = 3" != pooled
    assert page.locator("#figure-years_by_region_and_model td.few").count() > 0


def test_a_mark_tells_its_figures_and_the_legend_picks_a_model(opened):
    it = opened()
    page = it.page
    chart = page.locator("[data-chart=accuracy_over_time]")
    chart.evaluate("node => node.scrollIntoView({behavior: 'instant'})")
    sync_api.expect(chart).to_have_attribute("data-drawn", "true")
    points = chart.locator(".layer_2_marks path")
    points.nth(3).hover()
    sync_api.expect(page.locator("#tip")).to_contain_text("From")
    assert re.search(r"January 20\d\d", page.inner_text("#tip"))
    page.keyboard.press("Escape")
    sync_api.expect(page.locator("#tip")).to_be_hidden()
    chart.locator(".role-legend-entry text").first.click()
    faint = "nodes => nodes.filter(n => Number(n.getAttribute('opacity')) < 0.5).length"
    sync_api.expect(points.nth(3)).to_be_attached()
    page.wait_for_timeout(300)
    assert 0 < points.evaluate_all(faint) < points.count()
    page.locator("[data-chart=cutoffs]").evaluate("n => n.scrollIntoView({behavior: 'instant'})")
    page.locator("[data-chart=cutoffs] .layer_1_marks path").first.hover()
    sync_api.expect(page.locator("#tip")).to_contain_text("Lower from")
    assert it.quiet()


def test_answers_can_be_filtered_searched_and_turned(opened, verdicts):
    page = opened().page
    assert page.inner_text("#count") == f"{len(verdicts):,} of {len(verdicts):,} answers"
    page.select_option("select[name=model]", "own")
    page.select_option("select[name=region]", "Brazil")
    page.select_option("select[name=year]", "2019")
    page.select_option("select[name=language]", "pt")
    wanted = [
        row
        for row in verdicts
        if (row["model"], row["region"], row["year"], row["split"])
        == ("own", "Brazil", "2019", "native")
    ]
    assert page.inner_text("#count").startswith(f"{len(wanted)} of ")
    page.select_option("select[name=verdict]", label="unscored")
    assert page.inner_text("#count").startswith("1 of ")
    shown = page.inner_text(".result")
    for part in (wanted[1]["question"], wanted[1]["answer"], "own says so", "Because", "unscored"):
        assert part in shown
    link = page.locator(".result a")
    assert link.get_attribute("href") == wanted[1]["source_url"]
    page.get_by_role("button", name="Clear").click()
    counted(page, "8")
    page.fill("input[name=text]", "at France-2016-2? (english)")
    counted(page, "3 of")
    page.fill("input[name=text]", "")
    sync_api.expect(page.locator("#next")).to_be_enabled()
    first = page.inner_text(".result >> nth=0")
    page.click("#next")
    assert page.inner_text(".result >> nth=0") != first
    assert page.inner_text("#page").startswith("Page 2 of")


@pytest.mark.parametrize(("width", "split"), [(1366, "english"), (390, "native")])
def test_nothing_moves_when_a_chart_is_drawn(opened, width, split):
    it = opened(width=width)
    it.page.check(f"input[name=split][value={split}]")
    places = """() => Array.from(
        document.querySelectorAll("section, figure.card, .foot, #filters, footer"),
        node => [node.id || node.className, node.getBoundingClientRect().top + scrollY],
    )"""
    before = it.page.evaluate(places)
    assert it.page.locator("[data-chart]:not([data-drawn])").count() >= 8
    it.scroll_through()
    assert it.page.evaluate(places) == before
    for chart in it.page.locator("[data-chart]").all():
        assert chart.locator("svg").bounding_box()["height"] == chart.bounding_box()["height"]
    assert it.quiet()


def test_the_keyboard_is_enough(opened):
    page = opened().page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate(
                "document.activeElement.id || document.activeElement.name || "
                "document.activeElement.className || document.activeElement.tagName"
            )
        )
    assert {"theme", "split", "events", "map-model", "tile hot"} & seen >= {
        "theme",
        "split",
        "events",
    }
    page.locator("input[name=split]").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("state.split") == "native"


def test_the_theme_can_be_chosen(opened):
    page = opened(scheme="light").page
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(ground)
    page.click("#theme")
    assert page.evaluate(ground) == light
    page.click("#theme")
    assert page.evaluate(ground) != light
    assert "Dark" in page.inner_text("#theme")


@pytest.mark.parametrize(("width", "scheme"), [(1366, "light"), (1366, "dark"), (390, "light")])
def test_no_serious_fault_of_accessibility_at_any_width_and_theme(opened, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    it = opened(width=width, scheme=scheme)
    it.scroll_through()
    it.page.locator("details").evaluate_all(
        "nodes => nodes.slice(0, 6).forEach(n => n.open = true)"
    )
    found = axe.Axe().run(it.page).response["violations"]
    assert [(v["impact"], v["id"], v["nodes"][0]["html"][:200]) for v in found] == []
    assert it.page.evaluate("document.documentElement.scrollWidth") == width
    assert it.quiet()


HOSTILE = {
    "markup": "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>",
    "closing": "</script><script>window.hit = 1</script><!-- <script>",
    "template": "{{ 7 * 7 }} ${window.hit = 1} `",
    "direction": "\u202egnorw si siht\u202c and \u2067more",
    "long": "x" * 100_000,
    "control": "nul \x00 and \x1b[31m and \u2028 and \ud800",
}


def test_hostile_words_are_shown_as_words(opened, tmp_path):
    rows = [
        {
            "id": f"{name}-{split}",
            "region": "<b>Narnia</b>" if split == "english" else "Brazil",
            "split": split,
            "year": "2020" if split == "english" else "<i>20</i>",
            "month": "03",
            "model": model,
            "question": f"What {text}?",
            "answer": text,
            "model_answer": text,
            "reasoning": text,
            "correct": model != "own",
            "refusal": False,
            "judge": text[:100],
            "source_url": "javascript:window.hit=1" if split == "native" else "https://x.example",
        }
        for name, text in HOSTILE.items()
        for split in ("english", "native")
        for model in ("own", "<script>window.hit = 1</script>")
    ]
    it = opened(report(rows, tmp_path))
    page = it.page
    it.scroll_through()
    page.fill("input[name=text]", "<script>window.hit = 1</script><img")
    counted(page, "4 of")
    assert HOSTILE["markup"] in page.locator(".result .answered .text").first.inner_text()
    assert page.locator(".result img, .result script, .result b").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0
    assert "javascript:window.hit=1" in page.inner_text("#results")
    page.fill("input[name=text]", "xxxxxxxxxx")
    counted(page, "4 of")
    sync_api.expect(page.locator(".answered .text").first).to_contain_text("xxxxx")
    assert len(page.locator(".answered .text").first.inner_text()) < 2000
    page.get_by_role("button", name="Show all 100,000 characters").first.click()
    widest = page.evaluate("document.documentElement.scrollWidth")
    assert widest == 1366
    page.fill("input[name=text]", "gnorw")
    counted(page, "4 of")
    isolated = page.locator(".answered .text").first
    sync_api.expect(isolated).to_contain_text("gnorw")
    sync_api.expect(isolated).to_have_css("unicode-bidi", "isolate")
    sync_api.expect(isolated).to_have_attribute("dir", "auto")
    page.locator("[data-chart=ranking] svg").hover()
    assert page.evaluate("window.hit") is None
    assert it.quiet()


def test_control_characters_are_shown_as_what_cannot_be_shown(opened, tmp_path):
    every = "".join(map(chr, (*range(32), *range(0x7F, 0xA0))))
    names = ("model", "region", "year", "question", "answer", "model_answer", "reasoning", "judge")
    rows = [
        dict.fromkeys(names, f"{name}{every}") | {"split": "english", "id": n, "correct": n > 2}
        for name in ("one", "two")
        for n in range(6)
    ]
    survey = pd.DataFrame({"country": [f"C{every}"], "events": [3], "tier": ["1-64"]})
    path = report(rows, tmp_path, survey=survey)
    for file in tmp_path.iterdir():
        text = file.read_text("utf-8")
        assert not re.search(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]", text), file.name
    html = path.read_text("utf-8")
    assert not re.search(r"\\u00[01]", html[: html.index('id="packed"')])
    it = opened(path)
    counted(it.page, "12 of")
    it.page.select_option("select[name=model]", index=1)
    counted(it.page, "6 of")
    assert "\ufffd" in it.page.inner_text(".result .answered .text >> nth=0")
    assert "\ufffd" in it.page.inner_text(".answers")
    assert it.quiet()


def test_the_page_has_no_way_to_run_markup(folder):
    html = (folder / "index.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)[1]
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy and "script-src 'unsafe-inline'" not in policy
    script = html[html.rindex("<script>") :]
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert way not in script
    assert not re.search(r'(?:src|href)="https?:', html[: html.index('<script type="application')])


def test_each_question_is_stored_once(folder, verdicts):
    html = (folder / "index.html").read_text()
    packed = re.search(r'id="packed">([^<]+)<', html)[1]
    stored = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert len(stored["answers"]["text"]) == len(verdicts)
    assert len(stored["questions"]["text"]) == len({(r["id"], r["split"]) for r in verdicts})
    first = stored["answers"]["question"].index(0)
    assert stored["answers"]["text"][first].endswith(
        stored["questions"]["gold"][0].removeprefix("The answer of ")
    )


def test_a_report_of_almost_nothing(browser, tmp_path):
    path = report([{"correct": True, "question": "Who?"}, {"correct": None}], tmp_path)
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector(".result")
    assert page.inner_text("#count") == "2 of 2 answers"
    page.close()
    with pytest.raises(RecordError, match="no verdicts"):
        report([], tmp_path)


def test_what_too_few_rows_cannot_tell_is_not_drawn(browser, tmp_path):
    row = {"model": "own", "question": "Who?", "answer": "A", "month": "05", "split": "english"}
    rows = [
        row | {"region": region, "year": year, "correct": year > "2019", "id": f"{region} {year}"}
        for region in ("Brazil", "Portugal")
        for year in ("2019", "2021")
    ]
    page = browser.new_page()
    page.goto(report(rows, tmp_path).as_uri())
    page.wait_for_selector("#overview svg")
    assert page.locator("#regions, #time, #answers").count() == 3
    assert page.locator("#figure-cutoffs, #indicators, #models, a[href='#models']").count() == 0
    assert "nan" not in page.inner_text("body").lower()
    page.close()


def test_without_the_library_of_the_charts_the_remedy_is_named(verdicts, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    _library.cache_clear()
    with pytest.raises(TiebeError, match=r"pip install 'tiebe\[report\]'"):
        report(verdicts[:30], tmp_path)
    assert not (tmp_path / "index.html").exists()


def test_the_same_rows_give_the_same_page(folder, verdicts, more, tmp_path):
    report(verdicts, tmp_path, **more)
    assert (tmp_path / "index.html").read_bytes() == (folder / "index.html").read_bytes()


def test_every_region_has_a_tile_of_its_own():
    assert set(TILES) == set(REGIONS)
    assert len(set(TILES.values())) == len(TILES)


@pytest.mark.slow
def test_the_given_verdicts_make_a_page_that_is_small_and_quick(opened, shared, tmp_path):
    path = report(pd.read_parquet(shared / "upstream" / "judged.parquet"), tmp_path)
    assert path.stat().st_size <= 12_000_000
    it = opened(path)
    assert it.seconds <= 3 * 2, "3 seconds, twice that on a busy machine"
    page = it.page
    assert page.inner_text("#count") == f"{FULL:,} of {FULL:,} answers"
    timed = """([name, value]) => {
        const field = filters.elements[name];
        const start = performance.now();
        field.value = value;
        field.dispatchEvent(new Event("input", {bubbles: true}));
        document.body.getBoundingClientRect();
        return performance.now() - start;
    }"""
    for name, value in (
        ("model", "gpt-4.1"),
        ("region", "Turkey"),
        ("year", "2024"),
        ("verdict", "1"),
        ("model", ""),
        ("region", ""),
    ):
        assert page.evaluate(timed, [name, value]) <= 200
    start = time.monotonic()
    page.check("input[name=split][value=native]")
    page.evaluate("new Promise(requestAnimationFrame)")
    assert time.monotonic() - start <= 2
    it.scroll_through()
    assert page.locator("[data-chart] svg .role-legend text").count() > 0
    assert cut_off(page) == []
    assert it.quiet()
