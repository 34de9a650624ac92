"""A scripted writer for tests: an OpenAI-compatible server that writes and translates by rule.

Asked for questions, it answers from the article that it is sent, and from nothing else; asked for a
translation, it puts the facts into a frame in that language. Same request, same reply.

    with running(log="log.jsonl", latency=0.02, faults={"fence": 0.1, "429": 0.05}) as base_url: ...

Faults are drawn from the seed, the body and how often it was seen. `HARMLESS` ones change the form
of a reply and nothing else, those of `FORM` spoil it, those of `CONTENT` are well formed and bad; a
number is a status, `cut` closes the connection.
"""

import argparse
import contextlib
import hashlib
import json
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
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


def labelled(text: str, form: str) -> str:
    """The pairs of a reply as lines; a translation is one pair."""
    found = json.loads(text)
    pairs = found.get("questions", [found])
    return "\n".join(
        form.format(n=n, question=pair["question"], answer=pair["answer"])
        for n, pair in enumerate(pairs, 1)
    )


def changed(text: str, change: Callable[[dict[str, str]], object]) -> str:
    """A reply whose pairs were changed."""
    found = json.loads(text)
    for pair in found.get("questions", [found]):
        pair |= change(pair)  # type: ignore[operator]
    return json.dumps(found)


def _list(text: str) -> str:
    found = json.loads(text)
    return json.dumps(found.get("questions", [found]), ensure_ascii=False)


HARMLESS: Mapping[str, Callable[[str], str]] = {
    "fence": lambda t: f"```json\n{t}\n```",
    "prose": lambda t: f"Sure {{gladly}}! Here it is:\n\n{t}\n\nI hope that this helps :-}}",
    "think": lambda t: f'<think>The form is {{"questions": [], "x": 1}}.\n</think>\n\n{t}',
    "think_end": lambda t: f"First I look at the {{form}}.\n</think>\n{t}",
    "form_first": lambda t: f'The form: {{"questions": [{{"question": "…", "answer": "…"}}]}}\n{t}',
    "bold": lambda t: labelled(t, "**Question:** {question}\n**Answer:** {answer}\n"),
    "numbered": lambda t: labelled(t, "{n}. Question: {question}\n   Answer: {answer}"),
    "hash": lambda t: labelled(t, "### Question {n}\n: {question}\n\nAnswer {n}: {answer}\n"),
    "list": _list,
    "upper": lambda t: t.replace('"question"', '"Question"').replace('"answer"', '"Answer"'),
    "controls": lambda t: changed(
        t, lambda p: {"question": p["question"].replace(" ", " \0\ud800 ", 1)}
    ),
    "bytes": lambda t: "\ufeff" + t.replace(" ", "\\n", 1),
}
FORM: Mapping[str, Callable[[str], str | None]] = {
    "refusal": lambda t: "I am sorry, but I cannot help with that.",
    "empty": lambda t: "",
    "null": lambda t: None,
    "thinking": lambda t: f"<think>Let me see. {t}",
    "torn": lambda t: t[: t.index('"answer"') + 9],
    "types": lambda t: changed(t, lambda p: {"question": 3, "answer": {"x": [p["answer"]]}}),
    "keys": lambda t: t.replace('"answer"', '"anser"'),
    "deep": lambda t: '{"a":' * 3000 + t,
    "repeated": lambda t: "Answer: " * 500,
    "schema": lambda t: '{"questions": {"type": "array", "items": {"$ref": "#/pair"}}}',
}
CONTENT: Mapping[str, Callable[[str], str]] = {
    "yes_no": lambda t: changed(t, lambda p: {"question": "Was the bridge opened in May 2019?"}),
    "other": lambda t: changed(
        t, lambda p: {"question": "Who won the Tour de France in 2016?", "answer": "Froome"}
    ),
    "told": lambda t: changed(t, lambda p: {"answer": p["question"][6:40]}),
    "made_up": lambda t: changed(t, lambda p: {"answer": "Xanthippe Oldcastle, aged 98765"}),
    "article": lambda t: changed(t, lambda p: {"question": f"According to the article, {p}?"}),
    "long": lambda t: changed(t, lambda p: {"answer": p["answer"] + " and so on" * 40}),
}
"""In a translation these are a text in another language, without its numbers or cut."""


def spoiled(text: str, fault: str) -> tuple[str | None, str]:
    """A reply with a fault, and its finish reason."""
    if fault == "truncated":
        return text[: len(text) // 2], "length"
    if fault == "filtered":
        return None, "content_filter"
    for faults in (HARMLESS, FORM, CONTENT):
        if fault in faults:
            return faults[fault](text), "stop"
    return text, "stop"


class Writer(ThreadingHTTPServer):
    """The server."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, log: str, latency: float, faults: Mapping[str, float], seed: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.latency = latency
        self.faults = faults
        self.seed = seed
        self.seen: Counter[str] = Counter()
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
        body = hashlib.sha256(raw).hexdigest()[:16]
        fault = self.draw(body)
        time.sleep(self.server.latency)
        status = int(fault) if fault.isdecimal() else 200
        usage = {}
        if fault == "cut":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            data, status = b"", 0
        elif status != 200:
            data = json.dumps({"error": {"message": f"fault {fault}"}}).encode()
        elif fault == "html":
            data = b"<html><h1>Bad gateway</h1></html>"
        else:
            text, finish = spoiled(reply(request), fault)
            prompt = sum(len(m["content"]) for m in request["messages"])
            usage = {"prompt_tokens": prompt // 4, "completion_tokens": len(text or "") // 4}
            choice = {"index": 0, "finish_reason": finish}
            choice["message"] = {"role": "assistant", "content": text}
            choices = [] if fault == "no_choices" else [choice]
            answer = {"model": "scripted-1", "choices": choices, "usage": usage}
            data = json.dumps(answer).encode()
        try:
            if status:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                if status == 429:
                    self.send_header("Retry-After", "0")
                self.end_headers()
                self.wfile.write(data)
        except OSError:
            status = 0  # the client has gone
        if self.server.log:
            user = next(m["content"] for m in request["messages"] if m["role"] == "user")
            asked = fenced("event", user), fenced("question", user)
            line = {"url": body, "status": status, "t_in": started, "t_out": time.time()}
            line |= {"fault": fault, "on": next((m for m in asked if m), ""), **usage}
            with self.server.lock:
                self.server.log.write(json.dumps(line) + "\n")

    def draw(self, body: str) -> str:
        """The fault for this body, this time; empty for none."""
        with self.server.lock:
            self.server.seen[body] += 1
            attempt = self.server.seen[body]
        point = random.Random(f"{self.server.seed}/{body}/{attempt}").random()
        for name, rate in self.server.faults.items():
            point -= rate
            if point < 0:
                return name
        return ""

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def running(
    *,
    log: Path | None = None,
    latency: float = 0.0,
    faults: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Iterator[str]:
    """Serves from a process of its own; yields the base URL.

    Args:
        log: A file of JSON lines, one per request.
        latency: Seconds.
        faults: Their rates.
        seed: Draws them.
    """
    command = [sys.executable, __file__, "--log", str(log or ""), "--latency", str(latency)]
    command += ["--faults", json.dumps(faults or {}), "--seed", str(seed)]
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
    parser.add_argument("--faults", default="{}")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    server = Writer(args.log, args.latency, json.loads(args.faults), args.seed)
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
