import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import llm_server
import pytest

from tiebe.engine import Stage, Wait, run_stage
from tiebe.errors import BudgetError, ModelError, RecordError, SettingsError
from tiebe.journal import Journal
from tiebe.llm import Budget, Model, Reply, Server, count_tokens, find_json, open_model, visible
from tiebe.records import Drop

HELLO = [{"role": "user", "content": "Who won?"}]
SCHEMA = {"type": "object", "properties": {"correct": {"type": "boolean"}}}


@dataclass(frozen=True, slots=True)
class Item:
    n: int

    @property
    def id(self) -> str:
        return str(self.n)


def test_asks_a_server_and_keeps_what_it_served() -> None:
    with llm_server.running() as server:
        reply = open_model("stub-1", base_url=server.base_url).ask(HELLO)
    assert reply.text.startswith("Answer: ") and reply.finish == "stop"
    assert reply.served_model == "stub-1"
    assert reply.usage["calls"] == 1 and reply.usage["prompt_tokens"] > 0


def test_a_paid_reply_is_never_paid_twice(tmp_path: Path) -> None:
    with llm_server.running() as server:
        for _ in range(2):
            with Journal(tmp_path, fsync=True) as replies:
                model = open_model("stub", base_url=server.base_url, replies=replies)
                first = model.ask(HELLO, SCHEMA)
                assert model.ask(HELLO, SCHEMA) == first
        assert server.stats()["requests"] == 1


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"pquota": 1}, ModelError, "no quota is left"),
        ({"p400": 1}, ModelError, "400 from .*Unsupported parameter"),
        ({"p429": 1}, Wait, "wait 1"),
        ({"p500": 1}, Wait, "wait"),
        ({"pcut": 1}, Wait, "wait"),
        ({"pcut": 1, "cut": "early"}, Wait, "wait"),
        ({"pcut": 1, "cut": "reset"}, Wait, "wait"),
        ({"pempty": 1}, Wait, "wait"),
    ],
)
def test_failures_are_told_apart(
    options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with llm_server.running(**options) as server:
        with pytest.raises(error, match=says) as caught:
            open_model("stub", base_url=server.base_url).ask(HELLO)
        assert getattr(caught.value, "fatal", False) is ("pquota" in options)
        assert server.stats()["requests"] == 1


@pytest.mark.parametrize(
    ("options", "text", "finish"),
    [
        ({"pnull": 1}, "", "stop"),
        ({"pfilter": 1}, "", "content_filter"),
        ({"ptrunc": 1}, "Answe", "length"),
        ({"pprose": 1}, "I believe that", "stop"),
    ],
)
def test_bad_messages_are_replies_as_they_are(
    options: dict[str, Any], text: str, finish: str
) -> None:
    with llm_server.running(**options) as server:
        reply = open_model("stub", base_url=server.base_url).ask(HELLO)
    assert reply.text.startswith(text) and reply.finish == finish


def test_an_unreachable_server_ends_a_run_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiebe.engine.BACKOFF", 0.001)
    model = open_model("stub", base_url="http://127.0.0.1:9/v1")

    def stage(item: Item) -> list[Any]:
        return [Drop("ask", item.id, model.ask(HELLO).text)]

    monkeypatch.setattr("tiebe.llm.Server.__call__", _impatient)
    with pytest.raises(ModelError, match=r"no answer from http://127.0.0.1:9/v1"):
        run_stage(Stage("ask", 1, stage, ()), [Item(1)], Journal(None), progress=False)


def _impatient(self: Any, body: Any, ask: Any = open_model.__globals__["Server"].__call__) -> Any:
    """The real call, with its half second of patience taken out."""
    try:
        return ask(self, body)
    except Wait as wait:
        raise Wait(0.0, cause=wait.cause) from wait


def test_a_run_gets_over_every_passing_fault(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with llm_server.running(
        p429=0.1, p500=0.1, pcut=0.1, pempty=0.05, retry_after="0.05", log=str(log)
    ) as server:
        model = open_model("stub", base_url=server.base_url)

        def stage(item: Item) -> list[Any]:
            return [Drop("ask", item.id, model.ask([{"role": "user", "content": item.id}]).text)]

        items = [Item(n) for n in range(100)]
        outcome = run_stage(
            Stage("ask", 1, stage, ()), items, Journal(None), workers=16, progress=False
        )
        assert sum(outcome.counts()["dropped"].values()) == 100
        for drop in outcome.drops():
            correct, _ = llm_server.verdict(drop.record_id)
            assert drop.reason == f"Answer: {'yes' if correct else 'no'}"
        assert server.stats()["repeated"] > 10


@pytest.fixture
def refusing() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            bodies.append(body)
            status, answer = 400, {}
            if "max_tokens" in body:
                answer = {"error": {"message": "use max_completion_tokens", "param": "max_tokens"}}
            elif "temperature" in body:
                answer = {"error": {"message": "no", "param": "temperature"}}
            elif "response_format" in body:
                answer = {"error": {"message": "json_schema is not supported"}}
            else:
                status = 200
                message = {"role": "assistant", "content": "<think>so</think>fine"}
                answer = {"choices": [{"message": message}], "model": "o-9"}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1", bodies
    server.shutdown()
    server.server_close()


def test_learns_what_a_server_refuses(refusing: tuple[str, list[dict[str, Any]]]) -> None:
    url, bodies = refusing
    model = open_model("o-9", base_url=url, extra_body={"thinking": False})
    reply = model.ask(HELLO, SCHEMA)
    assert reply.text == "fine" and reply.served_model == "o-9" and len(bodies) == 4
    model.ask([{"role": "user", "content": "Who lost?"}], SCHEMA)
    assert len(bodies) == 5
    assert bodies[-1]["max_completion_tokens"] == 1024 and bodies[-1]["thinking"] is False


def test_a_callable_is_a_model() -> None:
    reply = open_model(lambda prompt: f"<think>hm</think> {prompt.upper()}").ask(HELLO)
    assert reply.text == "WHO WON?"
    with pytest.raises(ModelError, match="must return a str and returned int"):
        open_model(lambda prompt: 3).ask(HELLO)  # type: ignore[arg-type,return-value]


def test_replays_a_file(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text('{"match": ["Who", "won"], "reply": "She did", "model": "m-1"}\n\n')
    model = open_model(f"replay:{path}")
    reply = model.ask(HELLO)
    assert (reply.text, reply.served_model) == ("She did", "m-1")
    with pytest.raises(ModelError, match="holds no reply"):
        model.ask([{"role": "user", "content": "other"}])
    path.write_text('{"match": "x"}\n')
    with pytest.raises(RecordError, match=r"replies.jsonl:1: not of the form"):
        open_model(f"replay:{path}")
    path.write_bytes(b"\xb0\x00")
    with pytest.raises(RecordError, match="expected JSON lines in UTF-8"):
        open_model(f"replay:{path}")
    with pytest.raises(SettingsError, match="cannot read the replay file"):
        open_model("replay:nowhere.jsonl")


def test_names_are_resolved_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="set the environment variable OPENAI_API_KEY"):
        open_model("gpt-4o")
    with pytest.raises(SettingsError, match="unknown model 'gtp-5'; write provider:name"):
        open_model("gtp-5")
    with pytest.raises(SettingsError, match="must begin with http"):
        open_model("x", base_url="ftp://example.org")
    monkeypatch.setenv("TOGETHER_API_KEY", "k-secret")
    assert open_model("together:some/model").name == "together:some/model"


def test_a_key_never_gets_into_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = json.dumps({"error": {"message": f"bad {self.headers['Authorization']}"}})
            self.send_response(401)
            self.end_headers()
            self.wfile.write(data.encode())

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("MY_API_KEY", "sk-very-secret")
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        with pytest.raises(ModelError, match="check the key") as caught:
            open_model("m", base_url=url, key="MY_API_KEY").ask(HELLO)
    assert caught.value.fatal and "very-secret" not in str(caught.value)


def test_the_first_request_of_a_record_that_comes_back_is_not_paid_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tiebe.engine.BACKOFF", 0.001)
    sent = []

    def send(body: Any) -> Reply:
        sent.append(body["messages"][0]["content"])
        if sent.count("second") == 1 and sent[-1] == "second":
            raise Wait(0, cause=ModelError("busy", model="m"))
        return Reply("a", "a", "stop", "m", {"calls": 1, "prompt_tokens": 2})

    model = open_model("m", base_url="http://127.0.0.1:9")
    model.send = send

    def run(item: Item) -> list[Any]:
        for text in ("first", "second"):
            model.ask([{"role": "user", "content": text}])
        return [Drop("ask", item.id, "asked")]

    outcome = run_stage(Stage("ask", 1, run, ()), [Item(1)], Journal(None), progress=False)
    assert sent == ["first", "second", "second"]
    assert outcome.counts()["usage"] == {"calls": 2, "prompt_tokens": 4}


@pytest.mark.parametrize(
    ("seconds", "megabytes", "says"), [(0.01, 0, "no end after 0.3 s"), (0, 2, "more than 1 MB")]
)
def test_an_endless_answer_is_cut(
    monkeypatch: pytest.MonkeyPatch, seconds: float, megabytes: int, says: str
) -> None:
    """A server that sends a byte now and then, and one that sends without end."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000000000")
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(1000):
                    time.sleep(seconds)
                    self.wfile.write(b"x" * (megabytes << 18 or 1))

        def log_message(self, *args: object) -> None:
            pass

    monkeypatch.setattr("tiebe.llm._MAX_ANSWER", 1 << 20)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        with pytest.raises((ModelError, Wait)) as caught:
            open_model("m", base_url=url, timeout=0.3).ask(HELLO)
    assert says in str(getattr(caught.value, "cause", None) or caught.value)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ('{"error": {"message": "bad thing", "code": 7}}', "bad thing"),
        ('{"error": "bad thing"}', "bad thing"),
        ('{"detail": [{"msg": "bad thing"}]}', "bad thing"),
        ("<h1>bad thing</h1>", "bad thing"),
        ('[{"error": {"message": "bad thing"}}]', "bad thing"),
        ("[" * 100_000, r"\[\["),
    ],
)
def test_errors_are_told_in_whatever_form_they_come(answer: str, says: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(418)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        with pytest.raises(ModelError, match=f"418 from .*{says}"):
            open_model("m", base_url=url).ask(HELLO)


def test_a_budget_is_not_passed() -> None:
    prices = {"m": (1.0, 2.0)}
    budget = Budget(max_cost=0.001, prices=prices)

    def send(body: Any) -> Reply:
        usage = {"calls": 1, "prompt_tokens": 100, "completion_tokens": 100}
        return Reply("a", "a", "stop", "m", usage)

    model = open_model(lambda prompt: "a", max_tokens=100, budget=budget)
    model.name, model.send = "m", send
    asked = 0
    with pytest.raises(
        ModelError, match="the budget of 0.001 dollars is used up: raise it"
    ) as caught:
        while asked < 100:
            model.ask([{"role": "user", "content": f"{asked} " * 150}])
            asked += 1
    assert caught.value.fatal and asked == 3 and budget.cost == pytest.approx(0.0009)


def test_calls_in_flight_are_held_against_the_budget() -> None:
    budget = Budget(max_tokens=1000)
    usage = {"prompt_tokens": 400, "completion_tokens": 300}
    with budget.reserved("m", usage):
        with pytest.raises(Wait), budget.reserved("m", usage):
            raise AssertionError("passed the budget")
        budget.add("m", {"prompt_tokens": 100})
    with budget.reserved("m", usage):
        pass


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('the form is {"a": 0}; mine: {"a": 2}. Done', {"a": 2}),
        ('{"a": {"b": 1}}', {"a": {"b": 1}}),
        ('{"a": 1, "b": "cut', None),
        ("{" * 5000, None),
        ("no", None),
        ("[1, 2]", None),
    ],
)
def test_finds_the_last_json_object(text: str, found: Any) -> None:
    assert find_json(text) == found


def test_thinking_is_not_said() -> None:
    assert visible("<think>a</think>b") == "b"
    assert visible("<THINK>never closed") == ""
    assert visible("opened by the template</think>\n\nb") == "b"
    assert visible("a <think> in b") == "a <think> in b"
    assert visible('{"a": "a quoted </think> in b"}') == '{"a": "a quoted </think> in b"}'


def test_tokens_are_counted_by_script() -> None:
    assert count_tokens("word " * 100) == 126
    assert count_tokens("新闻" * 100) == 201
    assert count_tokens("ዜና" * 100) > 250


@pytest.mark.slow
def test_the_local_model_answers() -> None:
    try:
        model = open_model("local", max_tokens=8)
    except SettingsError as error:
        pytest.skip(str(error))
    reply = model.ask([{"role": "user", "content": "What is the capital of France?"}])
    assert reply.text and reply.usage["completion_tokens"] <= 8
    assert reply.served_model == "SmolLM2-135M-Instruct.Q4_1"  # no path of this machine
    assert os.environ.get("OMP_WAIT_POLICY") is None


@pytest.mark.parametrize(
    "wrong",
    [{"max_cost": float("nan")}, {"max_cost": -1.0}, {"max_tokens": -1}]
    + [{"prices": {"m": (1.0, price)}} for price in (-1.0, float("nan"), float("inf"))],
)
def test_a_budget_of_no_amount_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="expected"):
        Budget(**wrong)


def completion(content: object, **more: object) -> bytes:
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice], **more}).encode()


@pytest.mark.parametrize(
    "answer",
    [
        completion(5),
        completion({"a": 1}),
        b"[" * 100_000,
        b'{"choices": []}',
        completion("x", usage={"prompt_tokens": "many"}),
        b'{"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": Infinity}}',
    ],
)
def test_what_is_no_completion_is_asked_for_again(answer: bytes) -> None:
    with pytest.raises(Wait, match="wait") as caught:
        Server("m", "http://127.0.0.1:9", "", 1.0, False).read(answer)
    assert "sent no chat completion" in str(caught.value.cause)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": -5, "completion_tokens": -1000}])
def test_a_budget_holds_with_a_server_that_does_not_say_what_it_used(usage: Any) -> None:
    server = Server("m", "http://127.0.0.1:9", "", 1.0, False)
    read = server.read(completion("word " * 100, usage=usage))
    assert read.usage["completion_tokens"] > 50
    budget = Budget(max_tokens=1000)
    model = Model("m", lambda body: read, max_tokens=150, budget=budget)
    with pytest.raises(BudgetError):
        for n in range(20):
            model.ask([{"role": "user", "content": f"Who won race {n}?"}])
    assert 500 < budget.tokens <= 1000


@pytest.mark.parametrize("broken", ['{"a":1,', "{\n", "{", '{"a":'])
def test_a_reply_of_broken_objects_says_nothing_and_takes_no_time(broken: str) -> None:
    start = time.process_time()
    assert find_json('{"a": 1}' + broken * 500_000) in ({"a": 1}, None)
    assert time.process_time() - start < 5
    assert find_json(broken * 100 + ' {"a": 2}') == {"a": 2}
