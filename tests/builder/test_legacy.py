import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from datasets import load_dataset
from releases import digest

from builder.cli import main
from builder.legacy import import_legacy
from builder.release import read_articles, read_questions
from tiebe.errors import RecordError, SettingsError
from tiebe.load import load_tiebe


def upstream(folder: Path) -> Path:
    rows = [
        {
            "year": "2019",
            "month": "05",
            "event_desc": "3 May  A bridge opens.",
            "question": question,
            "answer": "The mayor",
            "text": "The mayor opened the bridge.",
            "region": "Brazil",
        }
        for question in ("Who opened the bridge?", "Who was there?", "Who opened the bridge?")
    ]
    for kind in ("english", "translated"):
        path = folder / "data" / kind / "Brazil.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(rows), "utf-8")
    return folder


def test_rows_get_ids_and_dates(tmp_path: Path) -> None:
    statistics = import_legacy(upstream(tmp_path / "old"), tmp_path / "new")
    assert statistics.total("Brazil", "english") == statistics.total("Brazil", "native") == 3
    rows = list(read_questions(tmp_path / "new"))
    english = [row for row in rows if row.split == "english"]
    assert len({row.id for row in english}) == 3
    assert {row.id for row in rows} == {row.id for row in english}
    assert {row.language for row in rows} == {"en", "pt"}
    assert {(row.date, row.event_desc) for row in rows} == {("2019-05-03", "A bridge opens.")}
    assert {(row.version, row.since) for row in rows} == {("2025.04", "2025.04")}
    (article,) = read_articles(tmp_path / "new")
    assert article["text"] == "The mayor opened the bridge."
    assert {row.article_id for row in rows} == {article["article_id"]}


def test_the_verb(tmp_path: Path) -> None:
    folder = str(upstream(tmp_path / "old"))
    new = str(tmp_path / "new")
    result = CliRunner().invoke(main, ["import-legacy", folder, new, "--version", "2025.04.1"])
    assert result.output.splitlines()[-1].endswith(
        "new: 3 English and 3 native questions on 1 regions, 1 articles"
    )
    assert set(load_tiebe(source=new)["version"]) == {"2025.04.1"}
    result = CliRunner().invoke(main, ["import-legacy", new, str(tmp_path / "again")])
    assert result.exit_code == 1
    assert "today's layout already" in result.output


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    folder = upstream(tmp_path / "old")
    (folder / "data/english/Brazil.json").write_text('[{"year": "2019"}]')
    with pytest.raises(RecordError, match=r"data/english/Brazil\.json: row 0"):
        import_legacy(folder, tmp_path / "new")
    with pytest.raises(SettingsError, match="is no release"):
        import_legacy(tmp_path, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_published_data(upstream_folder: Path, tmp_path: Path) -> None:
    statistics = import_legacy(upstream_folder, tmp_path / "new")
    assert (statistics.total(split="english"), statistics.total(split="native")) == (2941, 2378)
    loaded = load_dataset(str(tmp_path / "new"), cache_dir=str(tmp_path / "cache"))
    assert loaded.num_rows == {"english": 2941, "native": 2378}
    assert set(loaded["native"]["id"]) < set(loaded["english"]["id"])
    old = load_tiebe(source=upstream_folder, language="both", text=True)
    new = load_tiebe(source=tmp_path / "new", language="both", text=True)
    names = [n for n in new.column_names if n not in ("version", "since", "mini")]
    key = ("id", "language")
    pairs = [
        {tuple(row[k] for k in key): {n: row[n] for n in names} for row in rows}
        for rows in (old, new)
    ]
    assert pairs[0] == pairs[1]
    import_legacy(upstream_folder, tmp_path / "twice")
    assert digest(tmp_path / "new") == digest(tmp_path / "twice")
