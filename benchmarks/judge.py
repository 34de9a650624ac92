"""2,000 judgements, 16 in flight, beside other designs: `python -m benchmarks.judge [NAME …]`.

Every contender judges the same rows in a process of its own against a server on 127.0.0.1 that
answers after 200 or 20 ms, without faults and with (5 % 429 with Retry-After 1, 2 % 500, 1 % cut),
and once it is killed in the middle and resumed. `of ideal` is n × latency / 16 over the time from
the first request to the last answer; with faults it counts the retries' requests too. `raw` sends
the requests and does nothing else: what the machine allows; where it reaches less than on a free
machine, less is asked of the others too. What is not installed (`openai`, `inspect_ai`) is left
out, and said so.
"""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.figures import Figure, finish
from tiebe.prompts import load_prompt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
N, IN_FLIGHT = 2000, 16
FREE = {0.2: 0.97, 0.02: 0.84}  # what `raw` reaches on a machine with nothing else to do
FAULTS = {"p429": 0.05, "p500": 0.02, "pcut": 0.01, "retry_after": "1"}
ROWS = [
    {
        "question": f"Who won the regional chess title number {n} in {1950 + n % 70}?",
        "answer": f"Player {n}",
        "model_answer": f"As far as I know, player {n + n % 2} won it.",
    }
    for n in range(N)
]


PROMPT = load_prompt("judge")


def messages(row: dict[str, str]) -> list[dict[str, str]]:
    """The same prompt for all."""
    return PROMPT.render(
        question=row["question"], expected=row["answer"], candidate=row["model_answer"]
    )


def body(row: dict[str, str]) -> dict:
    schema = {"name": "reply", "schema": PROMPT.schema, "strict": True}
    format_ = {"type": "json_schema", "json_schema": schema}
    return {"model": "stub", "messages": messages(row), "response_format": format_}


def tiebe(base_url: str) -> int:
    """`tiebe.Judge` as users call it; its verdicts are kept on the disk, each synced."""
    from tiebe import Judge
    from tiebe.llm import open_model

    judge = Judge(open_model("stub", base_url=base_url), concurrency=IN_FLIGHT, progress=False)
    return sum(verdict.correct is not None for verdict in judge(ROWS))


def raw(base_url: str) -> int:
    """Threads that only send and receive."""
    url, own = urlsplit(base_url), threading.local()
    bodies = [json.dumps(body(row)).encode() for row in ROWS]

    def ask(content: bytes) -> bool:
        if not hasattr(own, "connection"):
            own.connection = http.client.HTTPConnection(url.hostname, url.port)
        own.connection.request("POST", f"{url.path}/chat/completions", content)
        return json.loads(own.connection.getresponse().read())["choices"] != []

    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        return sum(pool.map(ask, bodies))


def upstream(base_url: str) -> int:
    """The design of TiEBe's first code: `datasets.map` with a process per request in flight."""
    import datasets

    datasets.disable_progress_bars()
    judged = datasets.Dataset.from_list(ROWS).map(
        _upstream_row, num_proc=IN_FLIGHT, fn_kwargs={"base_url": base_url}
    )
    return sum(value is not None for value in judged["correct"])


_clients: list = []


def _upstream_row(row: dict, base_url: str) -> dict:
    import openai

    if not _clients:
        _clients.append(openai.OpenAI(base_url=base_url, api_key="none"))
    try:
        reply = _clients[0].chat.completions.create(**body(row))
        return {"correct": json.loads(reply.choices[0].message.content)["correct"]}
    except openai.OpenAIError:
        return {"correct": None}


def inspect(base_url: str) -> int:
    """inspect_ai: generate, then a scorer that reads the JSON."""
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.model import (
        ChatMessageSystem,
        ChatMessageUser,
        GenerateConfig,
        ResponseSchema,
        get_model,
    )
    from inspect_ai.scorer import Score, Target, accuracy, scorer
    from inspect_ai.solver import TaskState, generate
    from inspect_ai.util import JSONSchema

    @scorer(metrics=[accuracy()])
    def reads():
        async def score(state: TaskState, target: Target) -> Score:
            return Score(value=json.loads(state.output.completion)["correct"])

        return score

    roles = {"system": ChatMessageSystem, "user": ChatMessageUser}
    samples = [
        Sample(input=[roles[m["role"]](content=m["content"]) for m in messages(row)], id=str(n))
        for n, row in enumerate(ROWS)
    ]
    os.environ["STUB_API_KEY"] = "none"
    model = get_model(
        "openai-api/stub/stub",
        base_url=base_url,
        config=GenerateConfig(
            max_connections=IN_FLIGHT,
            max_retries=8,
            response_schema=ResponseSchema(
                name="reply", json_schema=JSONSchema.model_validate(PROMPT.schema)
            ),
        ),
    )
    (log,) = inspect_ai.eval(
        inspect_ai.Task(dataset=samples, solver=generate(), scorer=reads()),
        model=model,
        display="none",
        log_dir=os.environ["TIEBE_HOME"],
        fail_on_error=False,
        max_samples=IN_FLIGHT,
    )
    return log.results.completed_samples if log.results else 0


CONTENDERS = {"raw": (), "tiebe": (), "upstream": ("openai",), "inspect": ("inspect_ai",)}


@dataclass
class Measured:
    """One contender under one condition."""

    wall: float
    """Seconds from the first request to the last answer."""
    start: float
    """Seconds from the start of the process to the first request."""
    requests: int
    complete: int
    cpu: float
    """Milliseconds per judgement, the interpreter's start included."""
    megabytes: float
    """The peak, shared pages counted once."""


@contextlib.contextmanager
def serving(**options: object) -> Iterator[tuple[str, Path]]:
    """A server with its log."""
    from llm_server import running

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "requests.jsonl"
        with running(log=str(log), **options) as server:
            yield server.base_url, log


def spawn(name: str, base_url: str, home: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.judge", "--run", name, base_url],
        cwd=ROOT,
        env={**os.environ, "TIEBE_HOME": home, "HF_DATASETS_CACHE": home},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def requests_of(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def memory(pid: int) -> float:
    """Megabytes of a process and its descendants, each shared page counted once (PSS)."""
    total, todo = 0.0, [pid]
    while todo:
        current = todo.pop()
        with contextlib.suppress(OSError):  # it has just ended
            for line in Path(f"/proc/{current}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) / 1024
            for task in Path(f"/proc/{current}/task").iterdir():
                todo += map(int, (task / "children").read_text().split())
    return total


def measure(name: str, **options: object) -> Measured:
    """Runs a contender to its end."""
    with tempfile.TemporaryDirectory() as home, serving(**options) as (base_url, log):
        began, peak, usage = time.time(), 0.0, None
        process = spawn(name, base_url, home)
        while usage is None:
            time.sleep(0.5)
            peak = max(peak, memory(process.pid))
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            usage = used if pid else None
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stdout is not None
        complete = int(process.stdout.read() or 0)
        process.stdout.close()
        seen = requests_of(log)
    first = min(line["t_in"] for line in seen)
    last = max(line["t_out"] for line in seen)
    cpu = (usage.ru_utime + usage.ru_stime) / N * 1000
    return Measured(last - first, first - began, len(seen), complete, cpu, peak)


def killed(name: str, latency: float) -> tuple[int, int]:
    """Kills a contender at half and starts it again: items answered before, and of those repeated.

    What the server had sent less than 50 ms before the kill counts as in flight.
    """
    with tempfile.TemporaryDirectory() as home, serving(latency=latency) as (base_url, log):
        process = spawn(name, base_url, home)
        while not log.exists() or len(requests_of(log)) < N // 2:
            time.sleep(0.2)
        at = time.time()
        os.killpg(process.pid, 9)
        process.communicate()
        before = Counter(
            line["item"]
            for line in requests_of(log)
            if line["status"] == 200 and line["t_out"] < at - 0.05
        )
        seen = len(requests_of(log))
        with spawn(name, base_url, home) as again:
            again.communicate()
        after = {line["item"] for line in requests_of(log)[seen:]}
    return len(before), sum(item in after for item in before)


def main() -> None:
    """Measures and prints."""
    wanted = sys.argv[1:] or list(CONTENDERS)
    names = []
    for name in wanted:
        missing = [package for package in CONTENDERS[name] if find_spec(package) is None]
        if missing:
            print(f"{name} is left out: pip install {' '.join(missing)}")
        else:
            names.append(name)
    print("latency faults  contender  of ideal  start s  cpu ms  peak MB  requests  complete")
    figures = []
    allowed: dict[float, float] = {}
    for latency, faults, floor in ((0.2, {}, 0.92), (0.02, {}, 0.60), (0.2, FAULTS, 1 / 1.2)):
        for name in names:
            if name == "raw" and faults:
                continue  # it does not retry
            got = measure(name, latency=latency, **faults)
            ratio = got.requests * latency / IN_FLIGHT / got.wall
            print(
                f"{latency * 1000:4.0f} ms {'yes' if faults else 'no':>6}  {name:9} {ratio:9.2f}"
                f" {got.start:8.1f} {got.cpu:7.1f} {got.megabytes:8.0f} {got.requests:9,}"
                f" {got.complete:9,}",
                flush=True,
            )
            if name == "raw":
                allowed[latency] = min(1.0, ratio / FREE[latency])
            what = (
                f"{N:,} judgements, {latency * 1000:.0f} ms{', faults' if faults else ''}: {name}"
            )
            asked = floor * allowed.get(latency, 1.0)
            limits = (asked, 4, 120, N) if name == "tiebe" else (None,) * 4
            figures += [
                Figure(what, ratio, "of ideal", limit=limits[0], bound="at least"),
                Figure(f"{what}, CPU of each", got.cpu, "ms", limit=limits[1]),
                Figure(f"{what}, peak memory", got.megabytes, "MB", limit=limits[2]),
                Figure(f"{what}, complete", got.complete, "", limit=limits[3], bound="at least"),
            ]
    for name in names:
        if name != "raw":
            answered, repeated = killed(name, 0.02)
            what = f"killed at half and resumed, of {answered:,} answered asked again: {name}"
            figures.append(Figure(what, repeated, "", limit=0 if name == "tiebe" else None))
    finish(figures)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        print(globals()[sys.argv[2]](sys.argv[3]))
    else:
        main()
