#!/usr/bin/env python3
"""A fault-injecting stand-in for an OpenAI-compatible chat API (standard library only).

    python llm_server.py --port 8765 --latency 0.2 --log requests.jsonl \
        --p429 0.05 --p500 0.02 --pcut 0.01

or, from a test, in a process of its own:

    from llm_server import running
    with running(latency=0.02, p429=0.05, log="requests.jsonl") as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="x")
        ...
        print(server.stats())

What it serves
    POST /v1/chat/completions   (any prefix before /chat/completions is accepted)
    GET  /v1/models
    GET  /_stats                counters, peak requests in flight, the server's CPU seconds
    POST /_reset                zero the counters and the attempt memory

What it answers (--reply auto)
    response_format present      {"reasoning", "correct", "refusal"} as JSON text
    "GRADE:" in the last message "... GRADE: C" or "... GRADE: I"   (inspect_ai graders)
    "Correct: (true|false)"      Reasoning/Refusal/Correct lines
    otherwise                    "Answer: ..."
The verdict is a pure function of the text of the last message, `verdict(text)`: a test can work
out what every item must have been scored and so find wrong, swapped or lost results.

Faults are drawn from (seed, hash of the body, how often this body was seen): the same requests
meet the same faults whatever their order, and a retry draws again. In order of drawing:
    p429    429 with Retry-After, at once                p500     500 after the latency
    pcut    connection cut (--cut early|mid|reset)       phang    no answer for --hang seconds
    pquota  429 code insufficient_quota, at once         p400     400 after the latency
and, with status 200 but a bad message:
    pfence  JSON in a ```json fence    pprose  prose, no JSON
    ptrunc  cut off, finish_reason=length
    pnull   content null               pempty  no choices       pfilter finish_reason=content_filter
`--fail-first N` makes the first N attempts of every body answer 500, and `--max-inflight N` answers
429 to whatever comes while N requests are already being served.

The log has one JSON line per request, written when it is over: seq, t_in, t_out, conn, body (hash),
item (hash of the last message), attempt (1 = first time this body is seen), outcome, status,
inflight, retry (the openai client's x-stainless-retry-count). outcome "gone" = the client left
before the answer.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

FAULTS = (
    "p429",
    "p500",
    "pcut",
    "phang",
    "pquota",
    "p400",
    "pfence",
    "pprose",
    "ptrunc",
    "pnull",
    "pempty",
    "pfilter",
)
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    429: "Too Many Requests",
    500: "Internal Server Error",
}


@dataclass
class Config:
    host: str = "127.0.0.1"
    port: int = 0  # 0 = any free port, printed on the first line of stdout
    latency: float = 0.0  # seconds before an answer
    jitter: float = 0.0  # plus a uniform draw of up to this much
    reply: str = "auto"  # auto | json | grade | lines | answer
    log: str = ""  # path of the JSON-lines log, appended to
    seed: int = 0
    retry_after: str = "1"  # value of Retry-After on a 429; "" sends none
    cut: str = "mid"  # early: no bytes; mid: half an answer; reset: TCP RST
    hang: float = 600.0
    fail_first: int = 0
    max_inflight: int = 0
    p429: float = 0.0
    p500: float = 0.0
    pcut: float = 0.0
    phang: float = 0.0
    pquota: float = 0.0
    p400: float = 0.0
    pfence: float = 0.0
    pprose: float = 0.0
    ptrunc: float = 0.0
    pnull: float = 0.0
    pempty: float = 0.0
    pfilter: float = 0.0


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def verdict(text: str) -> tuple[bool, bool]:
    """(correct, refusal) for a last message; about half correct, one in eight a refusal."""
    byte = hashlib.sha256(text.encode()).digest()[0]
    correct = byte % 2 == 0
    return correct, not correct and byte % 8 == 1


def last_text(request: dict) -> str:
    messages = request.get("messages") or [{}]
    content = messages[-1].get("content") or ""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content


def reply_text(config: Config, request: dict, text: str) -> str:
    kind = config.reply
    if kind == "auto":
        if request.get("response_format"):
            kind = "json"
        elif "GRADE:" in text:
            kind = "grade"
        elif "Correct: (true|false)" in text:
            kind = "lines"
        else:
            kind = "answer"
    correct, refusal = verdict(text)
    reasoning = "The candidate's answer was compared with the expected answer by the test server."
    if kind == "json":
        return json.dumps({"reasoning": reasoning, "correct": correct, "refusal": refusal})
    if kind == "grade":
        return f"{reasoning}\n\nGRADE: {'C' if correct else 'I'}"
    if kind == "lines":
        lines = ("Reasoning", reasoning), ("Refusal", refusal), ("Correct", correct)
        return "\n".join(f"{name}: {str(value).lower()}" for name, value in lines)
    return f"Answer: {'yes' if correct else 'no'}"


def completion(config: Config, seq: int, request: dict, text: str, fault: str) -> dict:
    content, finish = reply_text(config, request, text), "stop"
    if fault == "pfence":
        content = f"```json\n{content}\n```"
    elif fault == "pprose":
        content = "I believe that the candidate's answer may well be right."
    elif fault == "ptrunc":
        content, finish = content[: len(content) // 2], "length"
    elif fault == "pnull":
        content = None
    elif fault == "pfilter":
        content, finish = None, "content_filter"
    prompt_tokens, completion_tokens = len(text) // 4, len(content or "") // 4
    message = {"role": "assistant", "content": content, "refusal": None}
    choice = {"index": 0, "finish_reason": finish, "logprobs": None, "message": message}
    return {
        "id": f"chatcmpl-{seq}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.get("model", "stub"),
        "choices": [] if fault == "pempty" else [choice],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def error(message: str, kind: str, code: str | None = None) -> dict:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


class Server:
    """State shared by all connections."""

    def __init__(self, config: Config):
        self.config = config
        self.log = Path(config.log).open("a", buffering=1) if config.log else None
        self.faulty = any(getattr(config, name) for name in FAULTS)
        self.connections = 0
        self.reset()

    def reset(self) -> None:
        self.seq = self.inflight = self.peak = 0
        self.outcomes: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        self.since, self.cpu = time.time(), time.process_time()

    def stats(self) -> dict:
        return {
            "requests": self.seq,
            "bodies": len(self.attempts),
            "repeated": self.seq - len(self.attempts),
            "inflight": self.inflight,
            "peak_inflight": self.peak,
            "connections": self.connections,
            "outcomes": dict(self.outcomes),
            "cpu_s": round(time.process_time() - self.cpu, 3),
            "wall_s": round(time.time() - self.since, 3),
        }

    def draw(self, body_hash: str, attempt: int) -> str:
        """The fault for this attempt at this body, "" for none."""
        config = self.config
        if config.max_inflight and self.inflight > config.max_inflight:
            return "p429"
        if attempt <= config.fail_first:
            return "p500"
        if self.faulty:
            point = random.Random(f"{config.seed}/{body_hash}/{attempt}").random()
            for name in FAULTS:
                point -= getattr(config, name)
                if point < 0:
                    return name
        return ""


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive; one request at a time on each connection."""

    def __init__(self, server: Server):
        self.server = server
        self.loop = asyncio.get_running_loop()
        self.buffer = bytearray()
        self.pending: tuple[asyncio.TimerHandle, dict] | None = None

    def connection_made(self, transport) -> None:
        self.transport = transport
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.connections += 1
        self.number = self.server.connections

    def connection_lost(self, exc) -> None:
        if self.pending:
            handle, entry = self.pending
            handle.cancel()
            self.finish(entry, "gone", 0)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self.advance()

    def advance(self) -> None:
        """Take the next whole request from the buffer, unless one is being served."""
        while not self.pending:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
            headers = {}
            for line in lines:
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
            if headers.get("transfer-encoding", "").lower() == "chunked":
                body, after = self.dechunk(end + 4)
                if body is None:
                    return
            else:
                after = end + 4 + int(headers.get("content-length") or 0)
                if len(self.buffer) < after:
                    if (
                        headers.pop("expect", "").lower() == "100-continue"
                        and len(self.buffer) == end + 4
                    ):
                        self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    return
                body = bytes(self.buffer[end + 4 : after])
            del self.buffer[:after]
            method, path, *_ = first.split(" ") + [""]
            self.keep = headers.get("connection", "").lower() != "close"
            self.route(method, path.partition("?")[0], headers, body)

    def dechunk(self, at: int) -> tuple[bytes | None, int]:
        body = bytearray()
        while True:
            eol = self.buffer.find(b"\r\n", at)
            if eol < 0:
                return None, 0
            size = int(bytes(self.buffer[at:eol]).split(b";")[0], 16)
            at = eol + 2
            if len(self.buffer) < at + size + 2:
                return None, 0
            body += self.buffer[at : at + size]
            at += size + 2
            if size == 0:
                return bytes(body), at

    def route(self, method: str, path: str, headers: dict, body: bytes) -> None:
        if method == "POST" and path.endswith("/chat/completions"):
            self.chat(headers, body)
        elif method == "GET" and path.endswith("/models"):
            self.send(
                200,
                {"object": "list", "data": [{"id": "stub", "object": "model", "owned_by": "test"}]},
            )
        elif path == "/_stats":
            self.send(200, self.server.stats())
        elif path == "/_reset" and method == "POST":
            self.server.reset()
            self.send(200, {})
        else:
            self.send(404, error(f"no {method} {path} here", "invalid_request_error"))

    def chat(self, headers: dict, body: bytes) -> None:
        server, config = self.server, self.server.config
        try:
            request = json.loads(body)
            text = last_text(request)
        except (ValueError, AttributeError, TypeError):
            self.send(400, error("the body is not a chat request", "invalid_request_error"))
            return
        if request.get("stream"):
            self.send(400, error("streaming is not supported", "invalid_request_error"))
            return
        body_hash = digest(body)
        server.seq += 1
        server.inflight += 1
        server.peak = max(server.peak, server.inflight)
        server.attempts[body_hash] += 1
        attempt = server.attempts[body_hash]
        entry = {
            "seq": server.seq,
            "t_in": round(time.time(), 4),
            "conn": self.number,
            "body": body_hash,
            "item": digest(text.encode()),
            "attempt": attempt,
            "inflight": server.inflight,
            "retry": headers.get("x-stainless-retry-count"),
        }
        fault = server.draw(body_hash, attempt)
        delay = config.latency + (random.random() * config.jitter if config.jitter else 0.0)
        if fault in ("p429", "pquota"):
            delay = 0.0
        elif fault == "phang":
            delay = config.hang
        handle = self.loop.call_later(delay, self.answer, entry, request, text, fault)
        self.pending = (handle, entry)

    def answer(self, entry: dict, request: dict, text: str, fault: str) -> None:
        self.pending = None
        config = self.server.config
        if fault == "p429":
            extra = f"Retry-After: {config.retry_after}\r\n" if config.retry_after else ""
            self.finish(entry, "429", 429)
            self.send(429, error("Rate limit reached", "requests", "rate_limit_exceeded"), extra)
        elif fault == "pquota":
            self.finish(entry, "quota", 429)
            self.send(
                429,
                error(
                    "You exceeded your current quota", "insufficient_quota", "insufficient_quota"
                ),
            )
        elif fault == "p500":
            self.finish(entry, "500", 500)
            self.send(500, error("The server had an error", "server_error"))
        elif fault == "p400":
            self.finish(entry, "400", 400)
            self.send(
                400,
                error("Unsupported parameter", "invalid_request_error", "unsupported_parameter"),
            )
        else:
            payload = completion(config, entry["seq"], request, text, fault)
            if fault in ("pcut", "phang"):
                self.finish(entry, "cut" if fault == "pcut" else "hang", 0)
                self.cut(payload)
                return
            self.finish(entry, fault[1:] or "ok", 200)
            self.send(200, payload)
        self.advance()

    def finish(self, entry: dict, outcome: str, status: int) -> None:
        self.pending = None
        self.server.inflight -= 1
        self.server.outcomes[outcome] += 1
        if self.server.log:
            entry.update(t_out=round(time.time(), 4), outcome=outcome, status=status)
            self.server.log.write(json.dumps(entry) + "\n")

    def cut(self, payload: dict) -> None:
        how = self.server.config.cut
        if how == "mid":
            data = json.dumps(payload).encode()
            head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            head += f"Content-Length: {len(data)}\r\n\r\n"
            self.transport.write(head.encode() + data[: len(data) // 2])
            self.transport.close()
        elif how == "reset":
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            self.transport.abort()
        else:
            self.transport.close()

    def send(self, status: int, payload: dict, extra: str = "") -> None:
        if self.transport.is_closing():
            return
        data = json.dumps(payload).encode()
        head = (
            f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n{extra}"
            f"Connection: {'keep-alive' if self.keep else 'close'}\r\n\r\n"
        )
        self.transport.write(head.encode() + data)
        if not self.keep:
            self.transport.close()


async def serve(config: Config) -> None:
    server = Server(config)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    listener = await loop.create_server(
        lambda: Connection(server), config.host, config.port, backlog=1024
    )
    port = listener.sockets[0].getsockname()[1]
    print(f"http://{config.host}:{port}/v1", flush=True)
    await stop.wait()
    listener.close()
    print(json.dumps(server.stats()), flush=True)


class Running:
    """A server in a process of its own."""

    def __init__(self, **options):
        command = [sys.executable, __file__]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.base_url = self.process.stdout.readline().strip()
        if not self.base_url:
            raise RuntimeError(f"the server did not start (exit {self.process.wait()})")

    def call(self, path: str, method: str = "GET") -> dict:
        request = urllib.request.Request(self.base_url.removesuffix("/v1") + path, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def stats(self) -> dict:
        return self.call("/_stats")

    def reset(self) -> None:
        self.call("/_reset", "POST")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


@contextlib.contextmanager
def running(**options):
    server = Running(**options)
    try:
        yield server
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for field in fields(Config):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default
        )
    asyncio.run(serve(Config(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
