"""Five questions as every harness is to score them: right, wrong, refused, unscored, and native."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from builder.release import Edition, write_release
from tiebe.records import Question, record_id

_FILE = Path(__file__).with_name("adapters") / "five_questions.jsonl"

ROWS: list[dict[str, Any]] = list(map(json.loads, _FILE.read_bytes().splitlines()))

SCORES = {"n": 5, "accuracy": 2 / 4, "refusal": 1 / 4, "unscored": 1}
"""What must come out: of five answers four hold a verdict, two of them right, one a refusal."""

BY_SPLIT = {
    "english": {"n": 4, "accuracy": 1 / 3, "refusal": 1 / 3, "unscored": 1},
    "native": {"n": 1, "accuracy": 1.0, "refusal": 0.0, "unscored": 0},
}
"""The same, for harnesses that have a task per split."""


def write(folder: Path) -> Path:
    """Writes the five as a release of Brazil."""
    write_release(folder, [_question(row) for row in ROWS], [], Edition("2025.04"))
    return folder


def _question(row: dict[str, Any]) -> Question:
    return Question(
        id=record_id("question", row["event"]),
        event_id=record_id("event", row["event"]),
        article_id=None,
        region="Brazil",
        language=row["language"],
        year="2019",
        month="03",
        date=f"2019-03-{row['event']:02}",
        end_date=None,
        event_desc=f"Event {row['event']}.",
        question=row["question"],
        answer=row["answer"],
        source_url=f"https://news.example/{row['event']}",
        archive_url=None,
        source_title="A report",
        page_title="2019 in Brazil",
        page_revision=1,
        writer="writer",
        prompt="generate@1",
    )


def reply(prompt: str) -> str:
    """What the model under test answers, and what the judge says of it."""
    (row,) = (row for row in ROWS if row["question"] in prompt)
    if "<candidate" not in prompt:
        return str(row["reply"])
    assert row["reply"].partition(": ")[2] in prompt
    return json.dumps(row["verdict"]) if row["verdict"] else "That is hard to say."


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Serves `reply` as an OpenAI-compatible server; yields its base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Chat)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Chat(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        # What is judged stands in the first message of the user, also when it is asked again.
        asked = next(m["content"] for m in request["messages"] if m["role"] == "user")
        if isinstance(asked, list):
            asked = "".join(part["text"] for part in asked)
        message = {"role": "assistant", "content": reply(asked)}
        body = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        }
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        pass
