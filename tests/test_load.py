import dataclasses
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, IterableDataset, load_dataset
from releases import make

from builder.release import Edition, write_release
from tiebe.errors import RecordError, SettingsError, VersionError
from tiebe.load import load_tiebe, version_key
from tiebe.records import COLUMNS

REGIONS = ("Brazil", "Portugal", "India", "World", "the_United_Kingdom")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of 300 events a region, the last 20 of each newer than the rest."""
    path = tmp_path_factory.mktemp("releases") / "2025.04"
    questions, articles = make(300, REGIONS)
    questions = [
        dataclasses.replace(q, since="" if int(q.answer.split()[1]) >= 280 else "2025.03")
        for q in questions
    ]
    write_release(path, questions, articles, Edition("2025.04"))
    return path


def rows(dataset: Any) -> list[dict[str, Any]]:
    return list(dataset)


def test_everything_is_what_load_dataset_gives(folder: Path, tmp_path: Path) -> None:
    ours = load_tiebe(source=folder)
    plain = load_dataset(str(folder), split="english", cache_dir=str(tmp_path))
    assert isinstance(ours, Dataset)
    assert ours.features == plain.features
    assert ours.column_names == list(COLUMNS)
    assert rows(ours) == rows(plain)


@pytest.mark.parametrize(
    ("arguments", "n"),
    [
        ({}, 1500),
        ({"region": "brasil"}, 300),
        ({"region": ["BR", "UK"]}, 600),
        ({"region": "Western Europe"}, 600),
        ({"language": "native"}, 900),
        ({"language": "both"}, 2400),
        ({"language": "pt"}, 600),
        ({"language": "Hindi"}, 300),
        ({"language": "en", "region": "World"}, 300),
        ({"language": "pt", "region": ["India", "Brazil"]}, 300),
        ({"region": "World", "years": 2015}, 28),
        ({"region": "World", "years": (2015, 2016)}, 56),
        ({"region": "World", "years": range(2015, 2017)}, 56),
        ({"region": "World", "years": [2015, 2017]}, 56),
        ({"region": "World", "years": (2030, 2040)}, 0),
        ({"region": "World", "after": "2025"}, 0),
        ({"region": "World", "before": "2015"}, 0),
        ({"region": "World", "since": "2025.03"}, 20),
        ({"region": "World", "since": "2025.02"}, 300),
        ({"region": "World", "since": "2025.04"}, 0),
        ({"sample": 100}, 100),
        ({"sample": 100, "language": "both", "region": "India"}, 200),
        ({"sample": 10_000}, 1500),
        ({"sample": "mini"}, 1000),
        ({"version": "2025.04", "region": "World"}, 300),
        ({"version": "v2025.04", "region": "World"}, 300),
    ],
)
def test_arguments(folder: Path, arguments: dict[str, Any], n: int) -> None:
    loaded = load_tiebe(source=folder, **arguments)
    assert len(loaded) == n
    streamed = load_tiebe(source=folder, streaming=True, **arguments)
    assert isinstance(streamed, IterableDataset)
    assert rows(streamed) == rows(loaded)


def test_cutoffs_are_exclusive(folder: Path) -> None:
    months = Counter(f"{r['year']}-{r['month']}" for r in load_tiebe(source=folder))
    assert months["2023-07"] and months["2023-12"] and months["2023-01"]
    for bound in ("2023-07", "2023-12", "2023-01"):
        after = load_tiebe(source=folder, after=bound)
        before = load_tiebe(source=folder, before=bound)
        assert len(after) + len(before) + months[bound] == 1500
        assert min(r["date"] for r in after) > bound + "-31"
        assert max(r["date"] for r in before) < bound + "-01"
    assert rows(load_tiebe(source=folder, after="2023")) == rows(
        load_tiebe(source=folder, years=(2024, 2099))
    )
    assert rows(load_tiebe(source=folder, before="2023")) == rows(
        load_tiebe(source=folder, years=(1900, 2022))
    )


def test_order_region_then_split_then_date(folder: Path) -> None:
    both = load_tiebe(source=folder, language="both")
    keys = [(r["region"], r["language"] != "en", r["date"], r["id"]) for r in both]
    assert keys == sorted(keys)


def test_samples_are_stratified_and_stable(folder: Path) -> None:
    sample = load_tiebe(source=folder, sample=110)
    assert set(Counter(sample["region"]).values()) == {22}
    assert set(Counter(sample["year"]).values()) == {10}
    assert rows(sample) == rows(load_tiebe(source=folder, sample=110))
    mini = load_tiebe(source=folder, sample="mini")
    assert all(mini["mini"])
    assert set(mini["id"]) == set(load_tiebe(source=folder, sample=1000)["id"])


def test_text_is_joined(folder: Path, tmp_path: Path) -> None:
    loaded = load_tiebe("Brazil", "both", source=folder, text=True, years=2020)
    assert loaded.column_names == [*COLUMNS, "text"]
    for row in loaded:
        number = row["answer"].split()[1]
        assert row["text"].startswith(f"A report on event {number}. ")
    streamed = load_tiebe("Brazil", "both", source=folder, text=True, years=2020, streaming=True)
    assert rows(streamed) == rows(loaded)
    write_release(tmp_path / "r", *make(2), Edition("2025.04", texts="none"))
    with pytest.raises(SettingsError, match="no article texts"):
        load_tiebe(source=tmp_path / "r", text=True)


def test_a_missing_article_is_none(tmp_path: Path) -> None:
    questions, articles = make(4, ("World",))
    write_release(tmp_path / "r", questions, articles[1:], Edition("2025.04"))
    texts = load_tiebe(source=tmp_path / "r", text=True)["text"]
    assert [t is None for t in texts].count(True) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"region": "Brasill"}, "did you mean .*Brazil"),
        ({"region": "France"}, "no questions on France; it has Brazil, India"),
        ({"region": []}, "no region was named"),
        ({"region": "World", "language": "native"}, "no questions on World in 'native'"),
        ({"region": "Brazil", "language": "hi"}, "no questions on Brazil in 'hi'"),
        ({"language": "Portugese"}, "Portuguese"),
        ({"years": "2015"}, "years must be"),
        ({"years": (2015,)}, "years as a pair"),
        ({"years": (2016, 2015)}, "years must be"),
        ({"after": "July 2024"}, "after must be a month like '2024-07'"),
        ({"before": "2024-13"}, "before must be a month"),
        ({"since": "last"}, "'last' is no release"),
        ({"sample": "maxi"}, "sample must be 'mini'"),
        ({"sample": 0}, "sample must be"),
        ({"source": "nowhere"}, "no folder here and no repo id"),
        ({"source": Path("nowhere")}, "is no release"),
    ],
)
def test_wrong_arguments(folder: Path, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        load_tiebe(**({"source": folder} | arguments))


@pytest.mark.parametrize("version", ["x", "", "2025.4", "main"])
def test_what_is_no_name_of_a_release_is_an_error(folder: Path, version: str) -> None:
    with pytest.raises(VersionError, match="a folder holds one release"):
        load_tiebe(source=folder, version=version)


def test_another_version_is_an_error(folder: Path) -> None:
    with pytest.raises(VersionError, match=r"holds 2025\.04, not 2025\.05"):
        load_tiebe(source=folder, version="2025.05")
    with pytest.raises(VersionError, match=r"holds 2025\.04, not 2025\.05"):
        load_tiebe(source=folder, version="2025.05", streaming=True)


def test_one_stray_file_is_an_error(folder: Path, tmp_path: Path) -> None:
    write_release(tmp_path / "r", *make(3), Edition("2025.04"))
    write_release(tmp_path / "s", *make(3), Edition("2025.05"))
    path = "data/World/english.parquet"
    (tmp_path / "r" / path).write_bytes((tmp_path / "s" / path).read_bytes())
    with pytest.raises(VersionError, match=f"{path} holds 2025.05, not 2025.04"):
        load_tiebe(source=tmp_path / "r", version="2025.04")
    with pytest.raises(VersionError, match=r"2025\.04 and 2025\.05"):
        load_tiebe(source=tmp_path / "r")


def test_broken_files_are_named(tmp_path: Path) -> None:
    write_release(tmp_path / "r", *make(3), Edition("2025.04"))
    path = tmp_path / "r/data/World/english.parquet"
    whole = path.read_bytes()
    for broken in (b"", whole[:-100], b"not a parquet file at all"):
        path.write_bytes(broken)
        with pytest.raises(RecordError, match=r"data/World/english\.parquet is no file of a rel"):
            load_tiebe(source=tmp_path / "r")
    pq.write_table(pa.table({"id": ["a"], "version": ["2025.04"]}), path)
    with pytest.raises(RecordError, match=r"data/World/english\.parquet is no file of a release"):
        load_tiebe(source=tmp_path / "r")


def test_regions_of_a_later_library_are_loaded(tmp_path: Path) -> None:
    write_release(tmp_path / "r", *make(3), Edition("2025.04"))
    (tmp_path / "r/data/Brazil").rename(tmp_path / "r/data/Atlantis")
    assert len(load_tiebe(source=tmp_path / "r")) == 9
    assert len(load_tiebe("Atlantis", "native", source=tmp_path / "r")) == 3


def test_versions_are_ordered() -> None:
    versions = ["2025.10", "2025.04.1", "2025.04", "v2025.05"]
    assert sorted(versions, key=version_key) == ["2025.04", "2025.04.1", "v2025.05", "2025.10"]


# ---- upstream's layouts of 2025


def upstream(folder: Path) -> Path:
    """Five English rows of two regions, one with its translation."""
    for kind, region, texts in (
        ("english", "Brazil", ["Which bridge opened?", "Who opened it?"]),
        ("translated", "Brazil", ["Que ponte abriu?", "Quem a abriu?"]),
        ("english", "Canada", ["Which dam closed?", "Who closed it?", "When did it close?"]),
    ):
        path = folder / "data" / kind / f"{region}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [
            {
                "year": "2019", "month": "05", "event_desc": f"{i + 1} May  Event {i}.",
                "question": question, "answer": f"Answer {i}", "text": f"Text {i}.",
                "region": region,
            }
            for i, question in enumerate(texts)
        ]  # fmt: skip
        path.write_text(json.dumps(rows), "utf-8")
    return folder


def test_upstreams_layout(tmp_path: Path) -> None:
    source = upstream(tmp_path)
    english = load_tiebe(source=source)
    assert english.column_names == list(COLUMNS)
    assert list(english["question"])[:2] == ["Which bridge opened?", "Who opened it?"]
    assert list(english["date"]) == [
        "2019-05-01",
        "2019-05-02",
        "2019-05-01",
        "2019-05-02",
        "2019-05-03",
    ]
    assert english[0]["event_desc"] == "Event 0."
    assert set(english["version"]) == {"legacy"}
    native = load_tiebe("Brazil", "pt", source=source, text=True)
    assert list(native["question"]) == ["Que ponte abriu?", "Quem a abriu?"]
    assert list(native["id"]) == list(english["id"])[:2]
    both = load_tiebe("Brazil", "both", source=source, text=True)
    assert list(both["text"]) == ["Text 0.", "Text 1.", "Text 0.", "Text 1."]
    assert len(load_tiebe(source=source, sample="mini", region="Canada")) == 3
    assert len(load_tiebe(source=source, sample=2, years=2019, after="2019-04")) == 2
    assert rows(load_tiebe(source=source, streaming=True)) == rows(english)
    with pytest.raises(VersionError, match=r"rows bear no version: not 2025\.04"):
        load_tiebe(source=source, version="2025.04")
    with pytest.raises(SettingsError, match="does not tell when"):
        load_tiebe(source=source, since="2025.03")


def test_the_layout_of_one_config_with_region_splits(tmp_path: Path) -> None:
    json_rows = json.loads((upstream(tmp_path) / "data/english/Canada.json").read_text("utf-8"))
    path = tmp_path / "splits/data"
    path.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(json_rows[:2]), path / "Canada-00000-of-00002.parquet")
    pq.write_table(pa.Table.from_pylist(json_rows[2:]), path / "Canada-00001-of-00002.parquet")
    splits = load_tiebe(source=tmp_path / "splits", text=True)
    files = load_tiebe("Canada", source=tmp_path, text=True)
    assert rows(splits) == rows(files)


def test_the_published_data(upstream_folder: Path) -> None:
    english = load_tiebe(source=upstream_folder)
    native = load_tiebe(source=upstream_folder, language="native")
    assert (len(english), len(native)) == (2941, 2378)
    assert set(native["id"]) < set(english["id"])
    assert len(load_tiebe(source=upstream_folder, before="2023")) == 1334
    assert len(load_tiebe(source=upstream_folder, sample="mini")) == 1000


# ---- what importing costs


def test_importing_tiebe_imports_none_of_its_heavy_dependencies() -> None:
    code = (
        "import sys, tiebe"
        "; heavy = {'datasets', 'openai', 'numpy', 'pandas', 'pyarrow', 'requests'}"
        "; found = heavy & sys.modules.keys(); assert not found, found"
        "; assert callable(tiebe.load_tiebe) and 'datasets' in sys.modules"
        "; assert set(tiebe.__all__) <= set(dir(tiebe))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_names_are_told() -> None:
    import tiebe

    with pytest.raises(AttributeError, match="no attribute 'laod'"):
        _ = tiebe.laod


def test_without_the_hub_nothing_is_said_to_be_loaded_that_was_not(
    tmp_path: Path,
) -> None:
    code = (
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "from tiebe import load_tiebe\nload_tiebe()"
    )
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | nowhere, capture_output=True, text=True
    )
    assert "VersionError" in told.stderr and "by source=FOLDER (--source)" in told.stderr
    assert "so what was loaded before is used" not in told.stderr
