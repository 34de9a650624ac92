"""builder.rendering: what templates, links and broken markup show."""

import pytest

from builder.citations import Sources
from builder.rendering import Renderer, clean


def shown(wikitext: str) -> str:
    renderer = Renderer(Sources(lambda _: None, str), lambda *_: None)
    return clean(renderer.text(wikitext))


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("{{USS|Nimitz|CVN-68}}", "USS Nimitz (CVN-68)"),
        ("{{HMS|Ark Royal|R07|6}}", "Ark Royal"),
        ("{{ship||Titanic}}", "Titanic"),
        ("{{frac|3}} {{frac|3|4}}{{frac}}", "1⁄3 3⁄4"),
        ("{{INRConvert|5|c}}, {{€|3 million}}", "₹5 crore, €3 million"),
        ("{{as of|2019|5|3|lc=y}}, {{as of|2019|df=us|alt=by then}}", "as of 3 May 2019, by then"),
        ("{{ill|A|pt|lt=B}} {{lang|pt|c}} {{nihongo|Hero|勇者|Yūsha}}", "B c Hero (勇者, Yūsha)"),
        ("{{Nowrap|a}} {{template:nowrap|b}} {{ nowrap | c }}", "a b c"),
        ("{{convert|100|F|C}}, {{convert|0|C|F}}", "100 °F (38 °C), 0 °C (32 °F)"),
        (
            "{{convert|6|ft}} by {{convert|5|by|6|m|ft}}",
            "6 feet (1.8 m) by 5 by 6 metres (16 by 20 ft)",
        ),
        ("{{convert|1500|ha|disp=out}}", "3,700 acres"),
        ("{{convert|4000|m|abbr=off}}", "4,000 metres (13,000 feet)"),
        ("{{convert|many|km}}", "many km"),
        ("{{convert|3|smoot}}", "3 smoot"),
        ("a<ref>b</ref>", "a"),
        ("''a'' '''b''' '''''c'''''", "a b c"),
        ("a ''b'''s c", "a b's c"),
        ("l'''amour''' d''e", "lamour de"),
        ("'''Bob''''s", "Bob's"),
        ("[[File:A.jpg|thumb|a [[b]] c]]d", "d"),
        ("[[File:A.jpg|thumb|never closed", ""),
        ("[[a|b", "b"),
        ("{{nowrap|never closed", "never closed"),
        ("<small>a</small> <b>never closed", "a never closed"),
        ("5 < 6 and 7 > 6", "5 < 6 and 7 > 6"),
        ("[[Category:A]][[category:B|C]][[fr:D]][[fr:E|F]]", "F"),
    ],
)
def test_shown(wikitext: str, expected: str) -> None:
    assert shown(wikitext) == expected


def test_unknown_templates_are_counted() -> None:
    renderer = Renderer(Sources(lambda _: None, str), lambda *_: None)
    renderer.text("{{strange|a}} {{Strange|b}} {{who needed}} {{use dmy dates}} {{1|2}}")
    assert renderer.unknown == {"strange": 2, "1": 1}


def test_lists_in_unknown_templates_are_lists() -> None:
    renderer = Renderer(Sources(lambda _: None, str), lambda *_: None)
    assert renderer.text("{{strange|\n* a\n* b\n}}").split() == ["*", "a", "*", "b"]
    assert not renderer.unknown
