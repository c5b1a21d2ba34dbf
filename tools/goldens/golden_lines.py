# SPDX-License-Identifier: Apache-2.0
"""JSON of goldens that is small and still has a line a case, so that a change shows where it is."""

import json


def golden_lines(value):
    """The text of a dictionary whose lists and dictionaries have one line for each member."""

    def line(part):
        return json.dumps(part, ensure_ascii=False, separators=(",", ":"))

    def block(part):
        if isinstance(part, list) and part:
            return "[\n" + ",\n".join(map(line, part)) + "\n]"
        if isinstance(part, dict) and part:
            return "{\n" + ",\n".join(f"{line(name)}:{line(member)}" for name, member in part.items()) + "\n}"
        return line(part)

    return "{\n" + ",\n".join(f"{line(name)}:{block(part)}" for name, part in value.items()) + "\n}\n"
