"""A scripted writer for tests: an OpenAI-compatible server that writes and translates by rule.

Asked for questions, it answers from the article that it is sent, and from nothing else; asked for a
translation, it puts the facts into a frame in that language. Same request, same reply.

    with running(log="log.jsonl", latency=0.02) as base_url: ...
"""

import argparse
import contextlib
import hashlib
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FENCED = r"<{0} (\w+)>\n(.*?)\n</{0} \1>"
NAME = re.compile(r"\b(?:[A-Z][\w'’.-]*[\w](?: (?:of|the|de|da|do|van|al) (?=[A-Z]))?[ -]?)+")
STARTERS = {"The", "A", "An", "In", "At", "On", "It", "He", "She", "They", "After", "Before"}
FRAMES = {
    "Portuguese": "Que nome ou número completa este relato do acontecimento, como foi noticiado?",
    "Spanish": "¿Qué nombre o número completa este relato del acontecimiento, según las noticias?",
    "French": "Quel nom ou quel nombre complète ce récit de l'événement tel qu'il a été rapporté ?",
    "German": "Welcher Name oder welche Zahl vervollständigt diesen Bericht über das Ereignis?",
    "Russian": "Какое имя или число дополняет этот рассказ о событии, как о нём сообщали?",
    "Ukrainian": "Яке ім'я або число доповнює цю розповідь про подію, як про неї повідомляли?",
    "Turkish": "Bu olayın anlatımını hangi ad veya sayı tamamlamaktadır, haberlere göre?",
    "Chinese": "根据当时的新闻报道，哪一个名称或数字可以补全下面这段关于该事件的叙述？",
    "Hindi": "समाचारों के अनुसार इस घटना के विवरण को कौन सा नाम या संख्या पूरा करती है?",
    "Indonesian": "Nama atau angka apakah yang melengkapi laporan peristiwa ini dalam berita?",
    "Amharic": "በዜና ዘገባዎች መሠረት ይህን ክስተት የሚያሟላው ስም ወይም ቁጥር የትኛው ነው?",
    "Tok Pisin": "Wanem nem o namba i save pulimapim dispela stori bilong samting i bin kamap?",
}


def fenced(kind: str, prompt: str) -> str:
    """The data of that kind in one of our prompts."""
    found = re.search(FENCED.format(kind), prompt, re.DOTALL)
    return found[2] if found else ""


def write(prompt: str) -> dict[str, Any]:
    """Questions on the event, each answered from the article alone."""
    event, article = fenced("event", prompt), fenced("article", prompt)
    date = re.search(r"^Date of the event: (.*)$", prompt, re.MULTILINE)
    month = re.sub(r"^\d+ ", "", (date[1] if date else "").split(" to ")[0])
    words = set(re.findall(r"\w{4,}", event.casefold()))
    best = max(
        re.split(r"\n+", article)[1:] or [""],
        key=lambda line: len(words & set(re.findall(r"\w{4,}", line.casefold()))),
    )
    told = best if event not in best else event
    names = [m[0].strip(" .-") for m in NAME.finditer(told) if m[0].strip() not in STARTERS]
    numbers = re.findall(r"\b\d[\d,.]*\d\b|\b\d\b", told)
    answers = [a for a in [*names[1:], *names[:1], *numbers] if a and told.count(a) == 1][:3]
    pairs = []
    for answer in answers:
        gap = told.replace(answer, "[…]").replace('"', "")[:220]
        rest = [n for n in names if n != answer]
        about = f" about {rest[0]}" if rest else ""
        text = f"Which name or number completed this account of {month}{about}: {gap}?"
        pairs.append({"question": text, "answer": answer})
    return {"questions": pairs}


def translate(prompt: str) -> dict[str, Any]:
    """The question's facts in a frame of that language."""
    language = re.search(r"^Translate the question and the answer into (.*)\.$", prompt, re.M)
    question, answer = fenced("question", prompt), fenced("answer", prompt)
    frame = FRAMES[language[1] if language else "Portuguese"]
    numbers = re.findall(r"\d[\d.,]*\d|\d", question)
    names = [m[0].strip(" .-") for m in NAME.finditer(question) if m[0].strip() not in STARTERS]
    facts = "; ".join([*numbers, *names[1:3]])
    return {"question": f"{frame[:-1].rstrip()} ({facts}){frame[-1]}", "answer": answer}


def reply(request: dict[str, Any]) -> str:
    """The scripted reply to a chat request."""
    prompt = next(m["content"] for m in request["messages"] if m["role"] == "user")
    made = translate(prompt) if "Translate the question" in prompt else write(prompt)
    return json.dumps(made, ensure_ascii=False)


class Writer(ThreadingHTTPServer):
    """The server."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, log: str, latency: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.latency = latency
        self.lock = threading.Lock()
        self.log = Path(log).open("a", buffering=1) if log else None


class Handler(BaseHTTPRequestHandler):
    """POST …/chat/completions."""

    protocol_version = "HTTP/1.1"
    server: Writer

    def do_POST(self) -> None:
        started = time.time()
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(raw)
        text = reply(request)
        time.sleep(self.server.latency)
        prompt = sum(len(m["content"]) for m in request["messages"])
        usage = {"prompt_tokens": prompt // 4, "completion_tokens": len(text) // 4}
        choice = {"index": 0, "finish_reason": "stop"}
        choice["message"] = {"role": "assistant", "content": text}
        answer = {"model": "scripted-1", "choices": [choice], "usage": usage}
        data = json.dumps(answer).encode()
        status = 200
        try:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            status = 0  # the client has gone
        if self.server.log:
            body = hashlib.sha256(raw).hexdigest()[:16]
            line = {"url": body, "status": status, "t_in": started, "t_out": time.time()}
            with self.server.lock:
                self.server.log.write(json.dumps(line) + "\n")

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def running(*, log: Path | None = None, latency: float = 0.0) -> Iterator[str]:
    """Serves from a process of its own; yields the base URL."""
    command = [sys.executable, __file__, "--log", str(log or ""), "--latency", str(latency)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", default="")
    parser.add_argument("--latency", type=float, default=0.0)
    args = parser.parse_args()
    server = Writer(args.log, args.latency)
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
