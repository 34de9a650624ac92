"""The inputs of `tiebe-build demo`: pages, articles, a server for them, and replies to replay.

All of it is data in this folder, in our own words; README.md there says what is what.
"""

import contextlib
import http.server
import re
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml

from builder.run import Run
from tiebe.evaluation import evaluate
from tiebe.llm import Ask, open_model
from tiebe.load import load_tiebe

__all__ = ["PAGES", "REPLIES", "Document", "build", "demonstrate", "documents", "serve"]

_FOLDER = Path(__file__).resolve().parent

PAGES = _FOLDER / "pages"
"""Wikitext of two regions and two years: a source `folder:`."""
REPLIES = _FOLDER / "replies.jsonl"
"""What a model would reply about these articles: a model `replay:`."""


@dataclass(frozen=True, slots=True)
class Document:
    """What the demonstration's web answers to one URL."""

    status: int
    content_type: str
    body: bytes


_REPLAY = re.compile(r"^(https://web\.archive\.org/web/\d+)[a-z]+_/")  # raw, without the toolbar
_MISSING = Document(404, "text/plain; charset=utf-8", b"There is no such page here.\n")


def documents() -> dict[str, Document]:
    """Returns the demonstration's whole web by URL, as articles.yaml and sites/ describe it."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER / "sites"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
    )
    entries = yaml.load((_FOLDER / "articles.yaml").read_text("utf-8"), yaml.BaseLoader)
    return {entry["url"]: _document(environment, entry) for entry in entries}


def _document(environment: jinja2.Environment, entry: Mapping[str, Any]) -> Document:
    # An archived copy has the layout of the site that was archived.
    host = urllib.parse.urlsplit(entry["url"][entry["url"].rindex("http") :]).hostname
    template = environment.get_template(entry.get("layout", f"{host}.html.jinja"))
    paragraphs = entry.get("text", "").strip().split("\n\n")
    html = template.render(entry, paragraphs=paragraphs)
    charset = "iso-8859-1" if "charset=iso-8859-1" in html else "utf-8"
    # As many servers do, this one leaves the encoding to the page.
    return Document(int(entry.get("status", 200)), "text/html", html.encode(charset))


def _answer(web: Mapping[str, Document], url: str) -> Document:
    if url.startswith("https://web.archive.org/cdx/"):
        return Document(200, "application/json", b"[]\n")
    return web.get(_REPLAY.sub(r"\1/", url), _MISSING)


@contextlib.contextmanager
def serve(web: Mapping[str, Document] | None = None) -> Iterator[str]:
    """Serves a web on 127.0.0.1, and yields the pattern that `[web] rewrite` takes.

    Args:
        web: Documents by URL; None for the demonstration's own. Any other URL is a 404; the
            index of web.archive.org knows of no copy but those that are cited.

    Yields:
        `http://127.0.0.1:PORT/?url={url}`.
    """
    pages = documents() if web is None else web

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            document = _answer(pages, query.get("url", [""])[0])
            self.send_response(document.status)
            self.send_header("Content-Type", document.content_type)
            self.send_header("Content-Length", str(len(document.body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(document.body)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing: the fetching side reports what it got."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/?url={{url}}"
        finally:
            server.shutdown()


_RUN = """\
# Written by `tiebe-build demo`: pages, articles and replies are those of the package.
[release]
version = "2023.12"
[pages]
source = "folder:{pages}"
regions = ["Brazil", "New Zealand"]
years = [2022, 2023]
[web]
delay = 0.0
allow_private = true
rewrite = "{rewrite}"
[generate]
model = "replay:{replies}"
"""


ANSWER_TOKENS = 48
"""The local model is small and rambles; what it knows it says at once."""


def build(folder: Path, *, progress: bool = True) -> Path:
    """Builds the demonstration's release and returns its folder.

    Args:
        folder: Where the run is kept; what it holds already is not done again.
        progress: Whether progress bars go to stderr.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with serve() as rewrite:
        toml = _RUN.format(pages=PAGES, replies=REPLIES, rewrite=rewrite)
        (folder / "run.toml").write_text(toml, "utf-8")
        with Run(folder, progress=progress) as run:
            run.upto("release")
            return run.release


def demonstrate(folder: Path, *, model: Ask = "local", progress: bool = True) -> Iterator[str]:
    """Builds a release from the bundled inputs, has a model answer it, judges and scores.

    Args:
        folder: Where the run, its release and the evaluation are kept.
        model: Who answers; the local model by default.
        progress: Whether progress bars go to stderr.

    Yields:
        What is to be told, paragraph by paragraph.

    Raises:
        SettingsError: The local model is not installed.
    """
    yield (
        "Replayed: the pages, the articles and the writer's and translator's replies are bundled "
        "with this package, in our own words.\nReal: reading the pages, fetching over HTTP from a "
        "server on 127.0.0.1, extraction, selection, checks, the release; the local model "
        "SmolLM2-135M that answers; the offline judge; the scores."
    )
    release = build(folder, progress=progress)
    questions = load_tiebe(source=release, language="both")
    rows = questions.to_list()
    natives = {row["id"]: row for row in rows if row["language"] != "en"}
    english = [row for row in rows if row["language"] == "en"]
    yield f"The release has {len(english)} English and {len(natives)} native questions. Some:"
    for row in [r for r in english if r["id"] in natives][:2] + english[-2:]:
        yield _shown(row, natives.get(row["id"]))
    asked = english[::2] + [natives[row["id"]] for row in english[::4] if row["id"] in natives]
    yield f"{len(asked)} of them are put to the model."
    opened = open_model(model, max_tokens=ANSWER_TOKENS)
    result = evaluate(opened, judge="offline", questions=asked, run=folder / "evaluation")
    yield "What the model said to the first three:"
    for judged in result.rows[:3]:
        verdict = "correct" if judged["correct"] else "refusal" if judged["refusal"] else "wrong"
        said = " ".join(judged["model_answer"].split())[:160]
        yield f"  {judged['question']}\n    {judged['model']}: {said}\n    judged: {verdict}"
    yield f"Scores (share correct, with 95 % intervals clustered by event):\n{result}"
    yield (
        f"release     {release}\n"
        f"journals    {folder}/collect … {folder}/check, counts in {folder}/manifest.json\n"
        f"evaluation  {folder / 'evaluation'}\n"
        f'load it     load_tiebe(source="{release}") or datasets.load_dataset("{release}")'
    )


def _shown(row: Mapping[str, Any], native: Mapping[str, Any] | None) -> str:
    lines = [
        f"  {row['date']}  {row['event_desc']}",
        f"    {row['language']}: {row['question']} -> {row['answer']}",
    ]
    if native:
        lines.append(f"    {native['language']}: {native['question']} -> {native['answer']}")
    return "\n".join([*lines, f"    source: {row['source_url']}"])
