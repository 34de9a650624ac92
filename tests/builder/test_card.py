import dataclasses
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from huggingface_hub import DatasetCard
from releases import ABOUT, make

from builder.release import Edition, Statistics, write_release
from tiebe.prompts import load_prompt
from tiebe.records import COLUMNS
from tiebe.regions import REGIONS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("card") / "release"
    write_release(path, *make(60, tuple(REGIONS)), Edition("2025.04", about=ABOUT))
    return path


def test_metadata(folder: Path) -> None:
    card = DatasetCard.load(folder / "README.md")
    data = card.data.to_dict()
    assert data["language"] == sorted({region.language_code for region in REGIONS.values()})
    assert data["license"] == "cc-by-sa-4.0"
    assert data["size_categories"] == "1K<n<10K"
    assert data["task_categories"] == ["question-answering"]
    names = [config["config_name"] for config in data["configs"]]
    assert names == ["all", *sorted(REGIONS), "articles"]
    assert [c["config_name"] for c in data["configs"] if c.get("default")] == ["all"]
    assert names == [info["config_name"] for info in data["dataset_info"]]


def test_the_card_tells_everything(folder: Path) -> None:
    text = DatasetCard.load(folder / "README.md").text
    for told in (
        'load_tiebe("Argentina", version="2025.04")',
        'load_dataset("TimelyEventsBenchmark/TiEBe", "Argentina"',
        "2025-04-30",
        "deepseek-v3-0324",
        "ab" * 32,
        "not_article 3, not_found 7",
        "A note of the builder.",
        "| Brazil | 50 | 60 | 40 | 60 | 120 |",
        "`near_duplicate` 468",
        "| 2025.04 | added | 1,380 | 23 |",
        "images/coverage.svg",
        "images/pipeline.svg",
    ):
        assert told in text, told
    assert not re.search(r"\{\{|\{%|None|Undefined|\bnan\b", text)
    described = set(re.findall(r"`(\w+)`", text.partition("| column |")[2].partition("###")[0]))
    assert described >= set(COLUMNS)


def test_tables_have_as_many_cells_as_their_heads(folder: Path) -> None:
    width = 0
    for line in DatasetCard.load(folder / "README.md").text.splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = line.count("|")
        width = width or cells
        assert cells == width, line


def test_the_periods_are_the_papers(folder: Path) -> None:
    text = DatasetCard.load(folder / "README.md").text
    row = next(line for line in text.splitlines() if line.startswith("| Brazil | Portuguese"))
    numbers = [int(n) for n in re.findall(r"\d+", row)]
    assert numbers == [36, 34, 20, 30, 60, 60, 120]  # four periods of both languages, then totals
    statistics = Statistics()
    for question in make(60, ("World",))[0]:
        statistics.count(dataclasses.replace(question, year="2031", mini=True))
    assert list(statistics.periods()) == ["2026–"]


def test_strangers_text_stays_text(tmp_path: Path) -> None:
    questions, articles = make(1, ("World",))
    hostile = "A | B\n# C `d` <script>alert(1)</script> [x](javascript:y) *z* {{ 7 * 7 }} ---"
    questions = [dataclasses.replace(questions[0], question=hostile, answer=hostile * 9, flags=())]
    write_release(tmp_path / "r", questions, articles, Edition("2025.04"))
    text = DatasetCard.load(tmp_path / "r/README.md").text
    table, _, full = text.partition("One row in full:")
    row = next(line for line in table.splitlines() if line.startswith("| World"))
    assert row.count("|") == 4
    assert not re.search(r"<script|\[x\]|`d`|\*z\*", row)
    block = full.split("```json\n")[1].split("\n```")[0]
    assert json.loads(block)["question"] == hostile


def test_pictures_are_pictures(folder: Path) -> None:
    for name in ("coverage", "pipeline"):
        svg = ElementTree.parse(folder / f"images/{name}.svg").getroot()
        assert svg.tag.endswith("}svg")
        words = " ".join(element.text or "" for element in svg.iter())
        assert "None" not in words
    assert "40" in words  # what retrieve made


def test_eval_yaml(folder: Path, tmp_path: Path) -> None:
    evaluation = yaml.safe_load((folder / "eval.yaml").read_text("utf-8"))
    assert evaluation["evaluation_framework"] == "inspect-ai"
    assert [task["id"] for task in evaluation["tasks"]] == ["english", "native"]
    (scorer,) = evaluation["tasks"][0]["scorers"]
    template, pattern = scorer["args"]["template"], scorer["args"]["grade_pattern"]
    prompt = template.format(question="Who?", criterion="Ada", answer="Ada {x}")
    system = load_prompt("judge").render(question="", expected="", candidate="")[0]["content"]
    assert prompt.startswith(system)
    assert prompt.index("Who?") < prompt.index("Ada") < prompt.index("Ada {x}")
    for reply, grade in (
        ('{"reasoning": "r", "correct": true, "refusal": false}', "true"),
        ('I thought "correct": true, but no. {"correct" : false, "refusal": true}', "false"),
    ):
        found = re.search(pattern, reply)
        assert found and found[1] == grade
    assert not re.search(pattern, "no verdict")
    write_release(tmp_path / "r", *make(2, ("World",)), Edition("2025.04"))
    only = yaml.safe_load((tmp_path / "r/eval.yaml").read_text("utf-8"))
    assert [task["id"] for task in only["tasks"]] == ["english"]
