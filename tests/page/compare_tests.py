# SPDX-License-Identifier: Apache-2.0
"""Side by side, and what the figures say."""

import re

from page_support import Page, PROMPT, spoken


def test_compare_is_identical(browser, url):
    p = Page(browser, url)
    p.set(max_tokens="64", temperature="0.8")
    p.page.click("#tab-compare")
    for order in ("#order-after", "#order-together"):
        p.page.check(order)
        p.compare()
        outcome = p.page.inner_text("#outcome")
        assert "Identical" in outcome, outcome
        plain, drafted = p.bodies[-2:]
        assert plain.pop("speculative") is False and "speculative" not in drafted
        assert plain.pop("cache_salt") != drafted.pop("cache_salt")
        assert plain == drafted, "the two requests differ"
        assert p.page.locator("#lane-plain .drafted").count() == 0, "plain has drafted text"
        assert p.page.locator("#lane-drafted .drafted").count() > 0, "nothing was drafted"
        texts = [p.page.inner_text(f"#lane-{name} > .flow") for name in ("plain", "drafted")]
        assert texts[0] == texts[1] and texts[0], texts
    p.close()


def test_compare_takes_several_turns(browser, url, shots=None):
    p = Page(browser, url, panel=False)
    p.set(max_tokens="48", temperature="0")
    p.page.click("#tab-compare")
    p.compare(turns=3)
    outcome = p.page.inner_text("#outcome")
    assert "Identical" in outcome, outcome
    assert [body.get("speculative") for body in p.bodies] == [False, None, None, False, False, None], "the order does not alternate"
    if shots:
        p.page.screenshot(path=f"{shots}/compare-turns.png")
    p.page.reload()
    assert p.page.input_value("#compare-turns") == "3"
    p.page.evaluate(spoken(12, (10, 10), 0))
    p.compare(turns=3)
    outcome = p.page.inner_text("#outcome")
    assert re.search(r"median of 3 turns, [\d.]+ to [\d.]+", outcome), outcome
    assert "No drafts were worth checking" in p.page.inner_text("#outcome"), p.page.inner_text("#outcome")
    p.close()


def test_says_that_drafting_paused(browser, url):
    p = Page(browser, url)
    p.page.wait_for_selector("#status[data-state=up]")
    paused = "Drafting paused: rows cost too much on this machine"
    for drafted, shown, speculative in ((0, True, True), (5, False, True), (0, False, False)):
        p.page.evaluate(spoken(12, (1, 1), drafted))
        if not speculative:
            p.page.click("#tab-request")
            p.page.uncheck("#set-speculative")
        p.send("Go")
        p.wait_idle()
        assert (paused in p.page.locator(".answer").last.inner_text()) == shown, (drafted, speculative)
        p.page.reload()
        p.page.wait_for_selector(".answer")
        assert (paused in p.page.locator(".answer").last.inner_text()) == shown, "a reload changed what is said"
    p.close()


def test_plain_promises_no_drafts(browser, url):
    p = Page(browser, url)
    p.page.wait_for_selector("#status[data-state=up]")
    p.set(max_tokens="32", temperature="0")
    assert "drafted" not in p.page.inner_text("main"), "the chat promises drafts"
    assert p.page.is_hidden("#tint") and p.page.is_hidden("#acceptance") and "no drafter" in p.page.inner_text("#panel-figures")
    p.send(PROMPT)
    p.wait_idle()
    assert "mean length" not in p.page.inner_text(".answer .numbers").lower()
    p.page.click("#tab-compare")
    assert "no drafter" in p.page.inner_text("#compare-form") and "--drafter FOLDER" in p.page.inner_text("#compare-form")
    p.compare()
    outcome = p.page.inner_text("#outcome")
    assert "draft" not in outcome and "slower" not in outcome and "Identical" in outcome, outcome
    assert "Drafted" not in p.page.inner_text("#view-compare")
    # After a reload at once, not only when the server has answered.
    p.errors_expected = True
    p.page.route("**/stats", lambda route: route.abort())
    p.page.reload()
    assert p.page.get_attribute("html", "data-plain") is not None
    p.page.unroute("**/stats")
    p.close()


def test_stats_only_while_visible(browser, url):
    p = Page(browser, url)
    p.page.wait_for_selector("#status[data-state=up]")
    p.page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true});"
        "window.away = true; document.dispatchEvent(new Event('visibilitychange'))"
    )
    p.page.wait_for_timeout(300)
    count = len([u for u in p.requests if u.endswith("/stats")])
    p.page.wait_for_timeout(2500)
    assert len([u for u in p.requests if u.endswith("/stats")]) == count, "polls while hidden"
    p.page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    p.page.wait_for_timeout(1600)
    assert len([u for u in p.requests if u.endswith("/stats")]) > count, "does not poll again"
    p.close()
