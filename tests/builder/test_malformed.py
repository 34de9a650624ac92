"""Every malformed reply that users report, at random rates: nothing crashes, nothing bad stays."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import writer_server
from fetched import Fetched, articles, new_run

from builder.generate import Writing, messages_for
from builder.records import Article
from builder.release import read_questions
from builder.rules import HARD
from builder.translate import messages_for as messages_for_translation
from tiebe.journal import Journal
from tiebe.llm import open_model
from tiebe.prompts import load_prompt

PASSING = ("429", "500", "503", "cut", "html", "no_choices")
UNFINISHED = ("truncated", "filtered")
KINDS = (
    *writer_server.HARMLESS,
    *writer_server.FORM,
    *writer_server.CONTENT,
    *PASSING,
    *UNFINISHED,
)


class Small(Fetched):
    sizes = {
        "Brazil": 9,
        "China": 8,
        "Ethiopia": 7,
        "India": 7,
        "Nigeria": 8,
        "Papua_New_Guinea": 6,
        "Russia": 8,
        "World": 9,
    }


def script(article: Article) -> list[dict[str, str]]:
    """What the scripted writer would say of an article without a fault."""
    prompt = load_prompt("generate")
    writing = Writing(open_model(lambda text: "", budget=None), prompt, 3)
    prompt_text = messages_for(article, writing)[-1]["content"]
    pairs: list[dict[str, str]] = writer_server.write(prompt_text)["questions"]
    return pairs


def entries(run: Path, name: str) -> list[Any]:
    with Journal(run / name) as journal:
        return list(journal)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_reply_is_accounted_for_and_nothing_bad_is_stored(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    weights = {name: draw.random() for name in KINDS}
    scale = draw.uniform(0.35, 0.6) / sum(weights.values())
    faults = {name: weight * scale for name, weight in weights.items()}
    log = tmp_path / "log.jsonl"
    with writer_server.running(log=log, faults=faults, seed=seed) as url:
        folder = new_run(tmp_path / "run", url)
        with Small(folder, progress=False) as run:
            run.upto("release")
            counts = run.counts()
    told = [json.loads(line) for line in log.read_text().splitlines()]
    print(Counter(line["fault"] for line in told))

    # No reply was lost: each is kept, was paid for once, and belongs to a record of the journals.
    replies = [line for line in told if line["status"] == 200 and "prompt_tokens" in line]
    replies = [line for line in replies if line["fault"] != "no_choices"]
    assert len(entries(folder, "replies")) == len(replies)
    calls = sum(counts[stage]["usage"]["calls"] for stage in ("generate", "translate"))
    assert calls == len(replies)
    tokens = sum(line["prompt_tokens"] + line["completion_tokens"] for line in replies)
    assert json.loads((folder / "manifest.json").read_text())["tokens"] == tokens

    # Every record has outputs or one reason, and none failed.
    reasons = {"truncated_reply", "filtered_reply", "unreadable_reply", "no_question"}
    for stage, more in {"generate": set(), "translate": {"bad_translation"}}.items():
        c = counts[stage]
        assert c["in"] == c["parents"] + sum(c["dropped"].values())
        assert set(c["dropped"]) <= reasons | more, c["dropped"]
    assert counts["generate"]["parents"] > 0.8 * counts["generate"]["in"]
    assert counts["translate"]["parents"] > 0.8 * counts["translate"]["in"]

    # What is released is what the writer says without faults, and breaks no rule.
    known = {article.id: article for article in articles(Small.sizes)}
    rows = list(read_questions(folder / "release"))
    english = {row.id: row for row in rows if row.split == "english"}
    for row in english.values():
        pair = {"question": row.question, "answer": row.answer}
        assert pair in script(known[row.article_id or ""]), pair
        assert not HARD & set(row.flags)
    for row in rows:
        if row.split == "native":
            original = english[row.id]
            prompt = messages_for_translation(original, load_prompt("translate"))
            clean = writer_server.translate(prompt[-1]["content"])
            assert (row.question, row.answer) == (clean["question"], clean["answer"])


def test_a_quota_that_ends_stops_the_run_at_once(tmp_path: Path) -> None:
    with writer_server.running(faults={"402": 1.0}) as url:
        folder = new_run(tmp_path / "run", url)
        with Small(folder, progress=False, workers=4) as run:
            with pytest.raises(Exception, match="the account has no credit"):
                run.upto("release")
            assert not (folder / "release").exists()
    with writer_server.running() as url:
        new_run(folder, url)
        with Small(folder, progress=False) as run:
            run.upto("release")
    assert (folder / "release" / "README.md").is_file()
