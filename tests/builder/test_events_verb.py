"""`tiebe-build events`: events on stdout, the rest on stderr."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from builder.cli import main

TEXT = """==Ongoing events==
* [[A drought]]
==Events==
* Something, some day
===January===
* 4–5 January – A {{strange}} storm.<ref>{{cite web|url=https://example.org/s|title=Storm}}</ref>
* 32 January – No such day
{{:2019 in Brazil/January}}
"""


def run(tmp_path: Path, *options: str, text: str = TEXT) -> Result:
    file = tmp_path / "page.wiki"
    file.write_text(text, "utf-8")
    return CliRunner().invoke(
        main, ["events", str(file), "--region", "Brazil", "--year", "2019", *options]
    )


def test_events(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 0
    first, second = map(json.loads, result.stdout.splitlines())
    assert first == {
        "start": "2019-01-04",
        "end": "2019-01-05",
        "precision": "day",
        "text": "A storm.",
        "references": [
            {
                "url": "https://example.org/s",
                "archive_url": None,
                "title": "Storm",
                "publisher": None,
                "published": None,
            }
        ],
    }
    assert (second["start"], second["precision"]) == ("2019-01", "month")
    for said in (
        "skipped (ongoing): A drought",
        "skipped (undated): Something, some day",
        "skipped (transclusion): {{:2019 in Brazil/January}}",
        "warning: there is no day 32 in January 2019",
        "template whose text is lost: strange (1)",
        "2 events, 3 skipped (",
    ):
        assert said in result.stderr


def test_undated_ones_with_all(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in run(tmp_path, "--all").stdout.splitlines()]
    assert [row["start"] for row in rows] == ["2019-01-04", "2019-01", None]
    assert rows[-1]["precision"] == "none"
    assert rows[-1]["text"] == "Something, some day"


def test_a_hostile_page_is_one_line(tmp_path: Path) -> None:
    result = run(tmp_path, text="{{a|" * 20_000)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert "(too_deep): 2019 in Brazil: 20,000 nested templates" in result.stderr
    assert result.stderr.count("\n") == 1


def test_wrong_names(tmp_path: Path) -> None:
    assert "unknown region 'Brasília'" in run(tmp_path, "--region", "Brasília").stderr
    assert "several regions" in run(tmp_path, "--region", "Africa").stderr
    assert CliRunner().invoke(main, ["events", "nowhere.wiki"]).exit_code == 2


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "page.wiki"
    file.write_bytes(b"==Events==\n* 4 May \xff\xfe \x96 A storm")
    result = CliRunner().invoke(main, ["events", str(file), "--region", "World", "--year", "2019"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["start"] == "2019-05-04"
