#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/page/markdown.json: the HTML that markdown-it-py makes of texts as models write them.

    make_markdown_goldens.py tests/data/page/markdown.json

Needs markdown-it-py with linkify. Its HTML is brought to the form that the page has: no markup of HTML, each line of a
paragraph a line, headings two levels lower, no paragraphs around text, and no attributes but addresses.
"""

import re
import sys

from markdown_it import MarkdownIt

from golden_lines import golden_lines

CASES = [
    "Plain words.\nA second line.\n\nA second paragraph.",
    "# One\n## Two ##\n### Three\n#### Four\n##### Five\n###### Six\n####### Seven\n#None",
    "*a* **b** ***c*** _d_ __e__ ~~f~~ **g *h* i** *j **k** l*",
    "snake_case_name and 2 * 3 * 4 and ** not ** and *not* *closed",
    "**bold**: *a*b* **c*d** e* __f_g__ *(h)* **\"i\"**!",
    "*foo**bar**baz* ***a** b* ***a* b** **a*b*c**",
    "Code `a*b*c`, ``a ` b``, ` x `, `unclosed and **bold**",
    "- one\n- two\n- three",
    "- one\n  - inner\n    - innermost\n  - inner again\n- two",
    "* a\n* b\n\n+ c\n+ d",
    "1. one\n2. two\n   - inner\n   - inner\n3. three",
    "7. seven\n8. eight\n\n1) other\n2) marker",
    "- loose\n\n- items\n\n  with two paragraphs",
    "Steps:\n1. first\n2. second\n\nAfter.",
    "1. run:\n   ```sh\n   ls -l\n   ```\n2. look",
    "> quoted\n> twice\n>\n> - a list\n> > inner\n\nafter",
    "---\n\ntext\n\n***\n\n- - -",
    "```python\ndef f(x):\n    return x\n```\n\n~~~\n```\n~~~",
    "````\n```\nnested\n```\n````",
    "```\nunclosed <b>\n\n- no list",
    "| a | b | c |\n|---|:-:|--:|\n| 1 | **2** | 3 |\n| 4 | 5 |",
    "Text before\n\n|x|\n|-|\n|y|\n\nafter",
    "a | b\n--|--\n`c` | d\n\nno | table",
    "[a](https://a.example) [b](http://b.example/x_(y)?z=1 \"title\") [c](mailto:d@e.example) <https://f.example/>",
    "See https://a.example/b_c_d. (And https://e.example/f)",
    "[**bold** `code`](https://a.example) [a [b] c](https://d.example)",
    "[none] [none](not an address) [x]: no ] ) [",
    "\\*not\\* \\_not\\_ \\# \\` \\~\\~ [a\\](b) C:\\Users",
    "<script>alert(1)</script> <b>bold</b> a < b > c & d",
    "# A *title* with `code`\nand text\n- and an item\n```\nand code\n```",
]


def page_form(html):
    html = re.sub(r"<(/?)h(\d)>", lambda m: f"<{m[1]}h{min(6, int(m[2]) + 2)}>", html)
    html = re.sub(r'<a href="([^"]*)"(?: title="[^"]*")?>', r'<a href="\1">', html)
    html = html.replace("<br>\n", "\n").replace("<s>", "<del>").replace("</s>", "</del>")
    html = re.sub(r' style="text-align:(\w+)"', r' class="to-\1"', html)
    html = re.sub(r'<code class="language-[^"]*">', "<code>", html)
    html = html.replace("<p>", "").replace("</p>", "\n")  # lists that are tight have none
    return re.sub(r"\s*\n\s*(?=<|$)|(?<=>)\n\s*", "", re.sub(r"\n\n+", "\n", html))


def main():
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "linkify": True, "xhtmlOut": False})
    parser.enable(["table", "strikethrough", "linkify"]).disable(["code", "reference", "lheading", "entity"])
    cases = [[text, page_form(parser.render(text))] for text in CASES]
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write(golden_lines({"cases": cases}))


if __name__ == "__main__":
    main()
