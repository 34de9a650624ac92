"""What paid work costs, and that a budget ends a run balanced and complete."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import writer_server
from fetched import SIZES, Fetched, article, articles, event, new_run
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.generate import Writing
from builder.plan import Base, Estimator, Outlook, Usage, in_turn, make_plan, tier, waves
from builder.release import read_questions
from tiebe.errors import SettingsError
from tiebe.llm import Budget, Model, Reply
from tiebe.prompts import load_prompt
from tiebe.records import Question
from tiebe.regions import REGIONS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with writer_server.running(log=tmp_path_factory.mktemp("writer") / "log.jsonl") as url:
        yield url


def questions(run: Path) -> list[Question]:
    return list(read_questions(run / "release"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, server: str) -> Path:
    folder = new_run(tmp_path_factory.mktemp("whole") / "run", server)
    with Fetched(folder, progress=False) as run:
        run.upto("collect")
        run.upto("retrieve")
        (folder / "plan.json").write_text(json.dumps(run.plan().usage.cost))
        run.upto("release")
        assert not run.ended
    return folder


def test_the_plan_is_near_what_is_paid(whole: Path) -> None:
    planned = json.loads((whole / "plan.json").read_text())
    paid = json.loads((whole / "manifest.json").read_text())["cost"]
    assert 0.9 < planned / paid < 1.1
    with Fetched(whole, progress=False) as run:
        plan = run.plan()
    assert plan.usage.cost == 0 and not plan.items


def test_sixty_percent_of_the_plan_buys_sixty_percent_of_each_region(
    whole: Path, tmp_path: Path, server: str
) -> None:
    # A first part of it tells what the server really reports.
    folder = new_run(tmp_path / "run", server, "[budget]\nmax_cost = 0.04")
    with Fetched(folder, progress=False) as run:
        run.upto("collect")
        run.upto("release")
        plan = run.plan()
    planned = plan.usage.cost + plan.budget.cost
    assert planned == pytest.approx(
        json.loads((whole / "manifest.json").read_text())["cost"], rel=0.05
    )
    cost = 0.6 * planned
    new_run(folder, server, f"[budget]\nmax_cost = {cost:.6f}")
    with Fetched(folder, progress=False) as run:
        run.upto("release")
        assert "raise it under [budget] and run again" in run.ended
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["cost"] <= cost and manifest["ended"] == run.ended
    generated = manifest["stages"]["generate"]
    assert generated["in"] == sum(SIZES.values()) and generated["dropped"]["pending"] > 0
    all_, part = questions(whole), questions(folder)
    total = Counter(row.region for row in all_ if row.split == "english")
    bought = Counter(row.region for row in part if row.split == "english")
    shares = {region: bought[region] / n for region, n in total.items()}
    assert all(0.55 <= share <= 0.65 for share in shares.values()), shares
    native = {row.id for row in part if row.split == "native"}
    wanted = {r.id for r in part if REGIONS[r.region].language and r.split == "english"}
    assert native == wanted
    # What was bought is what the whole run has, to the letter.
    texts = {(row.id, row.language): (row.question, row.answer) for row in all_}
    assert all(texts[r.id, r.language] == (r.question, r.answer) for r in part)
    # Raised, it goes on where it was and pays nothing twice.
    new_run(folder, server, "[budget]\nmax_cost = 10.0")
    with Fetched(folder, progress=False) as run:
        run.upto("release")
        assert not run.ended
    assert {(r.id, r.language) for r in questions(folder)} == texts.keys()
    paid = json.loads((whole / "manifest.json").read_text())
    assert json.loads((folder / "manifest.json").read_text())["tokens"] == paid["tokens"]


def test_an_estimate_that_was_too_low_does_not_pass_the_budget(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Estimator, "whole", lambda self, article: Usage())
    folder = new_run(tmp_path / "run", server, "[budget]\nmax_tokens = 60000")
    with Fetched(folder, progress=False) as run:
        run.upto("release")
        assert "is used up: raise it" in run.ended
    manifest = json.loads((folder / "manifest.json").read_text())
    assert 40_000 < manifest["tokens"] <= 60_000
    rows = questions(folder)
    native = {row.id for row in rows if row.split == "native"}
    assert native and native == {
        row.id for row in rows if row.split == "english" and REGIONS[row.region].language
    }
    stages = manifest["stages"]
    for counts in stages.values():
        assert counts["in"] == counts["parents"] + sum(counts["dropped"].values())
    assert stages["generate"]["dropped"]["pending"] > 300


def test_a_budget_for_nothing_writes_an_empty_end(tmp_path: Path, server: str) -> None:
    folder = new_run(tmp_path / "run", server, "[budget]\nmax_tokens = 500")
    with Fetched(folder, progress=False) as run:
        run.upto("translate")
        assert "has no room for more than 0 of" in run.ended
        assert run.counts()["generate"]["dropped"] == {"pending": sum(SIZES.values())}
        with pytest.raises(SettingsError, match="no question to release.*raise it under .budget"):
            run.upto("release")
    assert json.loads((folder / "manifest.json").read_text())["tokens"] == 0


# ---- the parts


@given(st.dictionaries(st.sampled_from(sorted(SIZES)), st.integers(1, 12), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_any_first_part_has_the_same_share_of_each_region(sizes: dict[str, int]) -> None:
    found = articles(sizes)
    ordered = in_turn(found)
    assert sorted(a.id for a in ordered) == sorted(a.id for a in found)
    for end in range(len(ordered) + 1):
        part = Counter(a.event.region for a in ordered[:end])
        for region, size in sizes.items():
            rounded = 0.5 + size * len(sizes) / 2 / len(ordered)
            assert abs(part[region] - size * end / len(ordered)) <= rounded + 1e-9
    for region in sizes:
        dates = [a.event.start for a in ordered if a.event.region == region]
        assert dates == sorted(dates, reverse=True)


def test_new_events_come_before_flagged_rows_and_those_before_backfill() -> None:
    draw = random.Random(1)
    events = [event("Brazil", n, draw) for n in range(30)]
    base = Base("2022-12", {e.id: n % 2 == 0 for n, e in enumerate(events)})
    ordered = in_turn([article(e, draw) for e in events], base)
    tiers = [tier(a.event, base) for a in ordered]
    assert tiers == sorted(tiers) and set(tiers) == {0, 1, 2}
    assert all(
        (a.event.start or "") > "2022-12" for a, t in zip(ordered, tiers, strict=True) if not t
    )


def estimator(budget: Budget) -> Estimator:
    def send(body: Any) -> Reply:
        raise AssertionError("nobody is asked")

    model = Model("m", send, max_tokens=300, budget=budget)
    return Estimator(
        Writing(model, load_prompt("generate"), 3), model, load_prompt("translate"), budget
    )


def test_without_a_budget_there_is_one_wave() -> None:
    found = articles({"Brazil": 30})
    assert list(waves(found, estimator(Budget()), paid=lambda a: False)) == [found]
    assert list(waves([], estimator(Budget()), paid=lambda a: False)) == []


def test_waves_stop_before_the_budget_and_what_is_paid_costs_nothing() -> None:
    found = in_turn(articles({"Brazil": 40, "World": 40}))
    budget = Budget(max_tokens=60_000)
    estimate = estimator(budget)
    taken = []
    for wave in waves(found, estimate, paid=lambda a: False):
        taken += wave
        budget.add("m", {"prompt_tokens": round(sum(estimate.whole(a).tokens for a in wave))})
    assert 0 < len(taken) < 80 and budget.tokens <= 60_000
    assert budget.tokens > 60_000 - 3 * estimate.whole(found[0]).tokens
    paid = {a.id for a in found}
    assert sum(map(len, waves(found, estimate, paid=lambda a: a.id in paid))) == 80


def test_the_estimate_is_corrected_by_what_servers_report() -> None:
    estimate = estimator(Budget(prices={"m": (1.0, 4.0)}))
    (one, other, *_) = articles({"Brazil": 3})
    before = estimate.write(other)
    reported = {"calls": 2, "prompt_tokens": 3 * round(estimate.write(one).prompt_tokens)}
    estimate.learn_writing(one, reported | {"completion_tokens": 700})
    after = estimate.write(other)
    assert after.prompt_tokens == pytest.approx(3 * before.prompt_tokens, rel=0.01)
    assert (after.completion_tokens, after.calls) == (700, 2)
    assert after.cost == pytest.approx((after.prompt_tokens + 4 * 700) / 1e6, rel=0.01)


def test_a_plan_is_made_at_every_stage() -> None:
    draw = random.Random(2)
    events = [event("Brazil", n, draw) for n in range(50)]
    early = make_plan(Outlook(pages=[("Brazil", 2019)]), estimator(Budget()))
    assert early.stages()["generate"].calls == pytest.approx(89 * 0.82)
    assert "pages are not read yet" in early.how[0]
    middle = make_plan(Outlook(events=events), estimator(Budget()))
    assert middle.stages()["generate"].calls == pytest.approx(50 * 0.82)
    assert sum(count for _, count in middle.fetches) == 50
    found = [article(one, draw) for one in events]
    late = make_plan(Outlook(articles=found), estimator(Budget(max_tokens=30_000)))
    assert late.stages()["translate"].calls == 50 and not late.fetches
    assert 0 < late.shares()["Brazil"][1] < 50
    text = "\n".join(late.lines(delay=1.0))
    assert "questions to come: 50" in text and "a budget of 30,000 tokens buys" in text
    assert 'm has no price: give it in run.toml, [models."m"] price' in text
    needs_none = make_plan(Outlook(articles=[article(event("Nigeria", 1, draw), draw)]),
                           estimator(Budget()))  # fmt: skip
    assert needs_none.stages()["translate"].calls == 0
