"""An invented question in two languages with its article: good rows, for tests to spoil."""

from dataclasses import replace

from builder.audit import Stored
from tiebe.records import Question

ROW = Question(
    id="q1",
    event_id="e1",
    article_id="a1",
    region="Germany",
    language="en",
    year="2021",
    month="05",
    date="2021-05-14",
    end_date=None,
    event_desc="The footbridge of Varnholm, designed by Ilse Tarrant, opens after four years.",
    question="Which architect designed the Varnholm footbridge that opened in May 2021?",
    answer="Ilse Tarrant",
    source_url="https://news.example/1",
    archive_url=None,
    source_title="",
    page_title="2021 in Germany",
    page_revision=1,
    writer="m-1",
    prompt="generate@1",
    version="2025.04",
)
TEXT = (
    "Varnholm celebrated its new footbridge on Friday, 14 May 2021. It was designed by Ilse "
    "Tarrant and cost twelve million euros. On its first day 4,200 people crossed the river on "
    "it, among them the mayor, who thanked the architect for four years of patience and the "
    "people of the old town for bearing with the noise of the works on both sides of the water."
)
ARTICLES = {"a1": Stored("Varnholm has its bridge", "https://news.example/1", TEXT)}
NATIVE = replace(
    ROW,
    language="de",
    question="Wer entwarf die Fußgängerbrücke von Varnholm, die im Mai 2021 eröffnet wurde?",
    prompt="translate@1",
)
