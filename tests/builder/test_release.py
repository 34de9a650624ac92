import dataclasses
import random
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
import yaml
from datasets import load_dataset, load_dataset_builder
from releases import ABOUT, digest, make

from builder.release import (
    ARTICLES,
    Change,
    Edition,
    compare,
    read_articles,
    read_changes,
    read_questions,
    reflag,
    write_release,
)
from tiebe.errors import RecordError, SettingsError
from tiebe.load import SCHEMA, stratified
from tiebe.records import COLUMNS, record_id


@pytest.fixture
def cache(tmp_path: Path) -> str:
    return str(tmp_path / "hf")


def test_the_layout_and_that_it_loads(tmp_path: Path, cache: str) -> None:
    questions, articles = make(40)
    folder = tmp_path / "release"
    statistics = write_release(folder, questions, articles, Edition("2025.04", about=ABOUT))
    assert sorted(digest(folder)) == [
        "README.md",
        "about.json",
        "articles/Brazil.parquet",
        "articles/World.parquet",
        "articles/the_United_Kingdom.parquet",
        "changelog.jsonl",
        "data/Brazil/english.parquet",
        "data/Brazil/native.parquet",
        "data/World/english.parquet",
        "data/the_United_Kingdom/english.parquet",
        "eval.yaml",
        "images/coverage.svg",
        "images/pipeline.svg",
    ]
    assert statistics.total() == 160
    assert statistics.total("Brazil", "native") == 40
    everything = load_dataset(str(folder), cache_dir=cache)
    assert everything.num_rows == {"english": 120, "native": 40}
    assert tuple(everything.column_names["english"]) == COLUMNS
    assert set(everything["native"]["language"]) == {"pt"}
    region = load_dataset(str(folder), "the_United_Kingdom", split="english", cache_dir=cache)
    assert set(region["region"]) == {"the_United_Kingdom"}
    assert set(region["version"]) == set(region["since"]) == {"2025.04"}
    texts = load_dataset(str(folder), "articles", split="articles", cache_dir=cache)
    assert set(texts["article_id"]) == {a.id for a in articles}
    assert texts.column_names == ARTICLES.names
    keys = list(zip(region["region"], region["date"], region["id"], strict=True))
    assert keys == sorted(keys)


def test_dataset_info_is_exact(tmp_path: Path, cache: str) -> None:
    questions, articles = make(1500, ("Brazil", "World"))  # more than one row group
    folder = tmp_path / "release"
    write_release(folder, questions, articles, Edition("2025.04"))
    for config in ("all", "Brazil", "World", "articles"):
        builder = load_dataset_builder(str(folder), config, cache_dir=cache)
        said = {s.name: (s.num_bytes, s.num_examples) for s in builder.info.splits.values()}
        size = builder.info.download_size
        builder.download_and_prepare()
        true = {s.name: (s.num_bytes, s.num_examples) for s in builder.info.splits.values()}
        assert said == true
        data = yaml.safe_load((folder / "README.md").read_text("utf-8").split("---\n")[1])
        info = next(i for i in data["dataset_info"] if i["config_name"] == config)
        paths = [
            path
            for c in data["configs"]
            if c["config_name"] == config
            for entry in c["data_files"]
            for path in folder.glob(entry["path"])
        ]
        assert size == info["download_size"] == sum(path.stat().st_size for path in paths)


def test_one_schema_everywhere(tmp_path: Path) -> None:
    folder = tmp_path / "release"
    write_release(folder, *make(3), Edition("2025.04"))
    for path in folder.glob("data/*/*.parquet"):
        assert pq.read_schema(path).equals(SCHEMA)
    for path in folder.glob("articles/*.parquet"):
        assert pq.read_schema(path).equals(ARTICLES)


def test_the_order_of_the_input_does_not_matter(tmp_path: Path) -> None:
    questions, articles = make(60)
    write_release(tmp_path / "a", questions, articles, Edition("2025.04", about=ABOUT))
    random.Random(5).shuffle(questions)
    random.Random(6).shuffle(articles)
    write_release(tmp_path / "b", iter(questions), iter(articles), Edition("2025.04", about=ABOUT))
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    questions, articles = make(20)
    folder = tmp_path / "release"
    write_release(folder, questions, articles, Edition("2025.04"))
    stamped = {(q.id, q.language): q for q in read_questions(folder)}
    assert stamped == {
        (q.id, q.language): dataclasses.replace(q, version="2025.04", since="2025.04", mini=True)
        for q in questions
    }
    assert {row["text"] for row in read_articles(folder)} == {a.text for a in articles}


def test_texts_none_leaves_articles_out(tmp_path: Path) -> None:
    folder = tmp_path / "release"
    write_release(folder, *make(3), Edition("2025.04", texts="none"))
    assert not (folder / "articles").exists()
    assert "config_name: articles" not in (folder / "README.md").read_text("utf-8")


def test_only_cited_articles_are_published(tmp_path: Path) -> None:
    questions, articles = make(10, ("World",))
    write_release(tmp_path / "r", questions[:4], articles, Edition("2025.04"))
    assert {r["article_id"] for r in read_articles(tmp_path / "r")} == {
        q.article_id for q in questions[:4]
    }


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda rows: rows + rows[-1:], "ids stand there twice"),
        (lambda rows: [q for q in rows if q.language != "en"], "have no English row"),
        (lambda rows: [dataclasses.replace(rows[0], region="Atlantis")], "Atlantis"),
    ],
)
def test_broken_input_leaves_the_old_release_alone(tmp_path: Path, spoil, told: str) -> None:  # type: ignore[no-untyped-def]
    questions, articles = make(5)
    folder = tmp_path / "release"
    write_release(folder, questions, articles, Edition("2025.04"))
    before = digest(folder)
    with pytest.raises(RecordError, match=told):
        write_release(folder, spoil(questions), articles, Edition("2025.05"))
    assert digest(folder) == before


def test_a_foreign_folder_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter.txt").write_text("precious")
    with pytest.raises(SettingsError, match="holds no release"):
        write_release(folder, *make(1), Edition("2025.04"))
    assert (folder / "chapter.txt").read_text() == "precious"


def test_a_release_is_replaced_whole(tmp_path: Path) -> None:
    folder = tmp_path / "release"
    write_release(folder, *make(3), Edition("2025.04"))
    (tmp_path / ".release.part").mkdir()  # what a killed build leaves behind
    (tmp_path / ".release.part" / "junk").write_text("x")
    write_release(folder, *make(3, ("World",)), Edition("2025.05"))
    assert not list(folder.glob("data/Brazil*"))
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


def test_the_changelog(tmp_path: Path) -> None:
    questions, articles = make(10, ("World",))
    first = tmp_path / "first"
    write_release(first, questions, articles, Edition("2025.03"))
    gone, faulty = questions[0], questions[1]
    better = dataclasses.replace(faulty, id=record_id("better"), replaces=faulty.id)
    kept = list(read_questions(first))
    kept = [q for q in kept if q.id not in (gone.id, faulty.id)]
    new = make(12, ("World",))[0][10:]
    second = tmp_path / "second"
    edition = Edition(
        "2025.04", base=first, reasons={gone.id: "withdrawn_by_hand", faulty.id: "off_event"}
    )
    write_release(second, [*kept, better, *new], articles, edition)
    assert read_changes(second) == [
        Change("2025.03", "added", "World", 10),
        Change("2025.04", "added", "World", 2),
        Change("2025.04", "changed", "World", 1, "off_event", (faulty.id,)),
        Change("2025.04", "withdrawn", "World", 1, "withdrawn_by_hand", (gone.id,)),
    ]
    rows = {q.id: q for q in read_questions(second)}
    assert {q.version for q in rows.values()} == {"2025.04"}
    assert {q.since for q in rows.values() if q.id in {k.id for k in kept}} == {"2025.03"}
    assert rows[better.id].since == "2025.04"
    assert "off_event" in (second / "README.md").read_text("utf-8")


def test_nothing_changes_from_a_release_to_itself() -> None:
    questions, _ = make(4)
    assert compare("2025.04", questions, questions, {}) == []


def test_stratified_is_proportional_and_stable() -> None:
    ids = [((f"r{i % 3}", i % 7), record_id("member", i)) for i in range(3000)]
    chosen = stratified(ids, 1000)
    assert len(chosen) == 1000
    for stratum in {s for s, _ in ids}:
        size = sum(s == stratum for s, _ in ids)
        picked = sum(s == stratum and m in chosen for s, m in ids)
        assert abs(picked - size / 3) < 1
    assert stratified(reversed(ids), 1000) == chosen
    without = stratified(ids[:2950], 1000)
    assert len(chosen & without) > 960
    assert stratified(ids[:5], 1000) == {m for _, m in ids[:5]}
    assert stratified([], 10) == set()


def test_every_byte_is_free_of_the_clock(tmp_path: Path) -> None:
    write_release(tmp_path / "r", *make(3), Edition("2025.04"))
    assert pq.read_metadata(tmp_path / "r/data/World/english.parquet").metadata.keys() <= {
        b"ARROW:schema"
    }
    assert msgspec.json.decode(
        (tmp_path / "r/changelog.jsonl").read_bytes().splitlines()[0]
    ).keys() == {"version", "kind", "region", "count", "reason", "ids"}


def test_new_flags_are_written_as_if_they_had_been_there(tmp_path: Path) -> None:
    questions, articles = make(8)
    rows = [
        dataclasses.replace(row, flags=("yes_no",) if row.language == "en" else ())
        for row in questions
    ]
    edition = Edition("2025.04", about=ABOUT)
    write_release(tmp_path / "before", questions, articles, edition)
    write_release(tmp_path / "wanted", rows, articles, edition)
    reflag(tmp_path / "before", {(row.id, row.language): row.flags for row in rows})
    assert digest(tmp_path / "before") == digest(tmp_path / "wanted")
