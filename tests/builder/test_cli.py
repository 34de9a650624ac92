"""Every verb's help reads well; what a user gets wrong ends in one clear line and exit code 1."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from builder.cli import main
from builder.demo import PAGES, REPLIES, serve
from tiebe.journal import Journal

TOML = """
[release]
version = "2023.12"
[pages]
source = "folder:{pages}"
regions = ["{region}"]
years = [2022, 2022]
[web]
delay = 0.0
allow_private = true
rewrite = "{rewrite}"
[generate]
model = "{model}"
"""


def invoke(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


def one_line(result: Result) -> str:
    """The error, checked to be one line with exit code 1."""
    assert result.exit_code == 1, (result.output, result.exception)
    lines = [x for x in result.stderr.splitlines() if x.startswith("error: ")]
    assert len(lines) == 1 and "Traceback" not in result.output
    return lines[0]


def write_run(
    folder: Path, *, region: str = "Brazil", model: str = "", rewrite: str = "", more: str = ""
) -> Path:
    folder.mkdir(exist_ok=True)
    toml = TOML.format(
        pages=PAGES,
        region=region,
        model=model or f"replay:{REPLIES}",
        rewrite=rewrite or "http://127.0.0.1:9/?url={url}",
    )
    (folder / "run.toml").write_text(toml + more, "utf-8")
    return folder


@pytest.mark.parametrize("verb", ["", *sorted(main.commands)])
def test_help_reads_well(verb: str) -> None:
    result = invoke(*([verb] if verb else []), "--help")
    assert result.exit_code == 0
    text = result.output.split("Options:")[0]
    assert len(text.strip().splitlines()) >= 3 and "Args:" not in text
    if verb:
        assert main.commands[verb].get_short_help_str(limit=200).endswith((".", "…"))


def test_usage_errors_exit_2() -> None:
    assert invoke("run").exit_code == 2
    assert invoke("no-such-verb").exit_code == 2


def test_a_folder_without_run_toml(tmp_path: Path) -> None:
    assert "a run is a folder with a run.toml in it" in one_line(invoke("run", tmp_path / "no"))


def test_a_wrong_region(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", region="Brasilia")
    assert "Brasilia" in one_line(invoke("collect", run))


def test_an_unknown_key(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", more="[relaese]\nx = 1\n")
    assert "unknown key 'relaese'; did you mean 'release'" in one_line(invoke("run", run))


def test_a_missing_key_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    with serve() as rewrite:
        run = write_run(tmp_path / "run", model="deepseek:deepseek-chat", rewrite=rewrite)
        error = one_line(invoke("generate", run))
    assert "set the environment variable DEEPSEEK_API_KEY" in error


def test_an_unreachable_server_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiebe.engine.TRIES", 2)
    own = '[models.mine]\nbase_url = "http://127.0.0.1:9/v1"\n'
    with serve() as rewrite:
        run = write_run(tmp_path / "run", model="mine", rewrite=rewrite, more=own)
        error = one_line(invoke("generate", run))
        assert "no answer from http://127.0.0.1:9/v1" in error
        before = {p: p.read_bytes() for p in (run / "retrieve").glob("*.jsonl")}
        assert before
        write_run(run, rewrite=rewrite)
        assert invoke("run", run).exit_code == 0
        assert {p: p.read_bytes() for p in before} == before


def test_a_corrupt_journal_line(tmp_path: Path) -> None:
    with serve() as rewrite:
        run = write_run(tmp_path / "run", rewrite=rewrite)
        assert invoke("run", run).exit_code == 0
        release = {p: p.read_bytes() for p in (run / "release").rglob("*.parquet")}
        part = run / "generate" / "0000.jsonl"
        lines = part.read_bytes().splitlines(keepends=True)
        part.write_bytes(b"".join([lines[0], b"\x00\x01 broken\n", *lines[2:]]))
        error = one_line(invoke("run", run))
        assert "generate/0000.jsonl:2: not a journal line; delete this line" in error
        part.write_bytes(b"".join([lines[0], *lines[2:]]))
        assert invoke("run", run).exit_code == 0
        assert {p: p.read_bytes() for p in release} == release


def test_two_processes_on_one_run(tmp_path: Path) -> None:
    from builder.run import Run

    run = write_run(tmp_path / "run")
    with Run(run):
        assert "another process is working on" in one_line(invoke("collect", run))
    assert invoke("collect", run).exit_code == 0


def test_status_tells_how_far_a_run_is(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert "not yet" in invoke("status", run).output
    invoke("collect", run)
    out = invoke("status", run).output
    assert "collect" in out and "1 journaled" in out
    manifest = json.loads((run / "manifest.json").read_text("utf-8"))
    assert manifest["stages"]["collect"]["in"] == 1


PRICED = '[models."deepseek:deepseek-chat"]\nprice = { input = 0.27, output = 1.10 }\n'


def test_a_plan_needs_neither_key_nor_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    run = write_run(tmp_path / "run", model="deepseek:deepseek-chat", more=PRICED)
    early = invoke("plan", run, "--budget", "0.02")
    assert early.exit_code == 0, early.output
    assert "questions to come: 73" in early.output
    assert "a budget of 0.02 dollars buys" in early.output
    assert "1 pages are not read yet: each is taken to list 89 events" in early.output
    invoke("collect", run)
    files = sorted(run.rglob("*"))
    later = invoke("plan", run)
    assert "documents to fetch: " in later.output and "jornal-da-mata.example" in later.output
    for verb in ("generate", "select", "translate", "check", "release", "run"):
        assert invoke(verb, run, "--dry-run").output == later.output
    assert sorted(run.rglob("*")) == files


def test_a_plan_without_a_price_says_so(tmp_path: Path) -> None:
    output = invoke("plan", write_run(tmp_path / "run", model="mine:x")).output
    assert 'mine:x has no price: give it in run.toml, [models."mine:x"] price' in output


def test_a_run_that_its_budget_ends_says_how_to_go_on(tmp_path: Path) -> None:
    with serve() as rewrite:
        more = "[budget]\nmax_tokens = 8000\n"
        run = write_run(tmp_path / "run", rewrite=rewrite, more=more)
        ended = invoke("translate", run)
        assert ended.exit_code == 0, ended.output
        assert "the budget of 8,000 tokens has no room for more than" in ended.output
        assert "raise it under [budget] and run again to go on" in ended.output
        write_run(run, rewrite=rewrite)
        assert "has no room" not in invoke("run", run).output
    english = json.loads((run / "manifest.json").read_text("utf-8"))["stages"]["select"]["out"]
    assert english > 0


def test_check_of_a_run_writes_the_audit_beside_it(tmp_path: Path) -> None:
    with serve() as rewrite:
        run = write_run(tmp_path / "run", rewrite=rewrite)
        result = invoke("check", run)
    assert result.exit_code == 0 and "Brazil" in result.output
    lines = (run / "audit.jsonl").read_text("utf-8").splitlines()
    assert len(lines) > 4 and (run / "audit.html").stat().st_size > 5000
    assert {json.loads(line)["split"] for line in lines} == {"english", "native"}


def test_compact(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert "there is no journal in it" in one_line(invoke("compact", run))
    for number in range(3):
        with Journal(tmp_path / "one") as journal:
            journal.append(f"{number:064x}", [{"n": number}])
        (run / "collect").mkdir(exist_ok=True)
        (tmp_path / "one/0000.jsonl").rename(run / f"collect/{number:04d}.jsonl")
    told = invoke("compact", run).output
    assert told.startswith("collect: 3 -> 1 parts, ")
    with Journal(run / "collect") as journal:
        assert len(journal) == 3
