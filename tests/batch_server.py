"""A stand-in for the Batch API: it shuffles, fails, expires and forgets to answer.

    with running(seconds=1.0, fail=0.03) as server:
        client of server.base_url
        print(server.paid)          # how often each request was answered

A batch is done `seconds` after it was made. Of its lines a share `fail` is answered with an error
(drawn from the request and how often it was sent); the first `expire` batches expire with half of
their lines undone; the first `lose` orders are carried out without an answer to who gave them.
"""

import contextlib
import hashlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from llm_server import verdict


class BatchServer:
    def __init__(
        self,
        *,
        seconds: float = 0.2,
        fail: float = 0.0,
        expire: int = 0,
        lose: int = 0,
        refuse: str = "",
        reply: Callable[[str], str] | None = None,
    ) -> None:
        self.seconds, self.fail, self.expire, self.lose = seconds, fail, expire, lose
        self.refuse, self.reply = refuse, reply
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.paid: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.base_url = ""

    def store(self, content: bytes) -> str:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return name

    def order(self, body: dict[str, Any]) -> dict[str, Any]:
        name = f"batch-{len(self.batches)}"
        self.batches[name] = {
            "id": name,
            "status": "validating",
            "due": time.time() + self.seconds,
            **{key: body[key] for key in ("input_file_id", "endpoint", "metadata")},
        }
        return self.batches[name]

    def look(self, name: str) -> dict[str, Any]:
        batch = self.batches[name]
        if batch["status"] == "validating" and time.time() >= batch["due"]:
            if self.refuse:
                batch |= {"status": "failed", "errors": {"data": [{"message": self.refuse}]}}
            else:
                self.work(batch)
        return batch

    def work(self, batch: dict[str, Any]) -> None:
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        assert len({line["custom_id"] for line in lines}) == len(lines)
        random.Random(0).shuffle(lines)
        batch["status"] = "completed"
        if self.expire:
            self.expire -= 1
            batch["status"] = "expired"
            lines = lines[: len(lines) // 2]
        good, bad = [], []
        for line in lines:
            key = line["custom_id"]
            self.sent[key] += 1
            draw = random.Random(f"{key}/{self.sent[key]}").random()
            if draw < self.fail:
                answer = {"status_code": 500, "body": {"error": {"message": "overloaded"}}}
                bad.append({"custom_id": key, "response": answer, "error": None})
                continue
            text = line["body"]["messages"][-1]["content"]
            self.paid[hashlib.sha256(text.encode()).hexdigest()] += 1
            correct, refusal = verdict(text)
            content = json.dumps({"reasoning": "r", "correct": correct, "refusal": refusal})
            if "response_format" not in line["body"]:
                content = f"Answer: {correct}"
            if self.reply is not None:
                content = self.reply(text)
            choice = {"index": 0, "message": {"content": content}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 100, "completion_tokens": 20}
            body = {"model": "stub-1", "choices": [choice], "usage": usage}
            good.append({"custom_id": key, "response": {"status_code": 200, "body": body}})
        for part, found in (("output_file_id", good), ("error_file_id", bad)):
            if found:
                text = "".join(json.dumps(line) + "\n" for line in found)
                batch[part] = self.store(text.encode())


@contextlib.contextmanager
def running(**options: Any) -> Iterator[BatchServer]:
    """Serves in threads of this process."""
    state = BatchServer(**options)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def send(self, value: Any) -> None:
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            path = self.path.removeprefix("/v1")
            with state.lock:
                if path.startswith("/files/"):
                    self.send(state.files[path.split("/")[2]])
                elif path.startswith("/batches/"):
                    self.send(state.look(path.split("/")[2]))
                else:  # a list, one to a page
                    names = list(state.batches)
                    after = path.partition("&after=")[2]
                    at = names.index(after) + 1 if after else 0
                    page = [state.batches[name] for name in names[at : at + 1]]
                    self.send({"data": page, "has_more": at + 1 < len(names)})

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            with state.lock:
                if self.path == "/v1/files":
                    boundary = self.headers["Content-Type"].partition("boundary=")[2].encode()
                    parts = content.split(b"--" + boundary)
                    (file,) = [p for p in parts if b"filename=" in p]
                    assert any(b'name="purpose"' in p and b"batch" in p for p in parts)
                    body = file.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
                    self.send({"id": state.store(body)})
                    return
                batch = state.order(json.loads(content))
                if state.lose:
                    state.lose -= 1
                    self.close_connection = True
                    return
                self.send(batch)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.base_url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
