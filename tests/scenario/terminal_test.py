# SPDX-License-Identifier: Apache-2.0
"""terminal_test.py PROGRAM: `ashlar chat` on a terminal whose window changes while a line is typed, which lays its wrapped rows out
anew, as most do. What the program writes is shown on a small screen made here, and the screen must say what was typed, once."""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

PATIENCE = 60  # seconds; a screen that is right is taken at once


class Screen:
    """Rows of cells; a row that was left by wrapping and the next one are one line, which a new width breaks anew."""

    def __init__(self, columns):
        self.columns, self.rows, self.wraps = columns, [[]], [False]
        self.row = self.column = 0
        self.rest = ""
        self.bold = False  # what is written next

    def put(self, char):
        if self.column == self.columns:
            self.wraps[self.row] = True
            self.down(1)
            self.column = 0
        cells = self.rows[self.row]
        cells.extend(" " * (self.column + 1 - len(cells)))
        cells[self.column] = char
        self.column += 1

    def down(self, count):
        self.row += count
        while len(self.rows) <= self.row:
            self.rows.append([])
            self.wraps.append(False)

    def clear_row(self, column):
        del self.rows[self.row][column:]
        self.wraps[self.row] = False

    def control(self, numbers, end):
        count = int(numbers.split(";")[0] or 0) if numbers.strip("?") and numbers[0] != "?" else 0
        cells = self.rows[self.row]
        if end == "A":
            self.row = max(0, self.row - max(count, 1))
        elif end == "B":
            self.row = min(len(self.rows) - 1, self.row + max(count, 1))
        elif end in "CD":
            column = min(self.column, self.columns - 1) + max(count, 1) * (1 if end == "C" else -1)
            self.column = min(max(column, 0), self.columns - 1)
        elif end == "G":
            self.column = max(count, 1) - 1
        elif end == "J" and count == 0:
            self.clear_row(self.column)
            del self.rows[self.row + 1 :], self.wraps[self.row + 1 :]
        elif end == "K" and count == 0:
            self.clear_row(self.column)
        elif end == "P":
            del cells[self.column : self.column + max(count, 1)]
        elif end == "@":
            cells[self.column : self.column] = " " * max(count, 1)
            del cells[self.columns :]
        elif end == "m":
            self.bold = numbers == "1" or (self.bold and numbers not in ("", "0"))
        elif end not in "hl":
            raise AssertionError(f"this screen does not know CSI {numbers}{end}")

    def write(self, text):
        text = self.rest + text
        self.rest = ""
        while text:
            if text[0] == "\033":
                sequence = re.match(r"\033\[([0-9;?]*)([A-Za-z@])|\033[=>]", text)
                if not sequence:
                    self.rest = text
                    return
                if sequence[2]:
                    self.control(sequence[1], sequence[2])
                text = text[sequence.end() :]
                continue
            char, text = text[0], text[1:]
            if char == "\r":
                self.column = 0
            elif char == "\n":
                self.down(1)
            elif char == "\b":
                self.column = max(0, min(self.column, self.columns - 1) - 1)
            elif char != "\a":
                self.put(char)

    def resize(self, columns):
        lines, at = [], None  # [cells], and the line and offset of the cursor
        joined = False
        for row, (cells, wraps) in enumerate(zip(self.rows, self.wraps)):
            if not joined:
                lines.append([])
            if row == self.row:
                at = (len(lines) - 1, len(lines[-1]) + self.column)
            lines[-1] += cells + [" "] * ((self.columns if wraps else 0) - len(cells))
            joined = wraps
        self.columns, self.rows, self.wraps = columns, [], []
        for number, cells in enumerate(lines):
            length = max(len(cells), at[1] if number == at[0] else 0)
            if number == at[0]:
                self.row, self.column = len(self.rows) + at[1] // columns, at[1] % columns
            count = max(1, (length + columns - 1) // columns, at[1] // columns + 1 if number == at[0] else 0)
            for i in range(count):
                self.rows.append(cells[i * columns : (i + 1) * columns])
                self.wraps.append(i + 1 < count)

    def lines(self):
        texts = ["".join(cells).rstrip() for cells in self.rows]
        while texts and not texts[-1]:
            texts.pop()
        return texts


class Chat:
    def __init__(self, program, columns):
        self.screen = Screen(columns)
        self.raw, self.answered = b"", 0  # what was written, and how much of it must have been there for an expectation
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            arguments = ["chat", "-q", "--no-history", "--drafter", "none", "--no-self-test", "-n", "8"]
            os.environ["TERM"] = "xterm"
            os.execv(program, [program] + arguments)
        self.resize(columns)

    def resize(self, columns):
        self.screen.resize(columns)
        self.answered = len(self.raw) + 1  # that this screen lays out rows anew is not enough
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def type(self, text):
        os.write(self.terminal, text.encode())

    def expect(self, what, right):
        end = time.monotonic() + PATIENCE
        while len(self.raw) < self.answered or not right(self.screen.lines()):
            if time.monotonic() > end:
                sys.exit(f"FAILED: {what}\n" + "\n".join(self.screen.lines()) + f"\nwritten: {self.raw[-600:]!r}")
            if not select.select([self.terminal], [], [], 0.5)[0]:
                continue
            try:
                data = os.read(self.terminal, 65536)
            except OSError:  # the other end is closed
                sys.exit(f"FAILED: the chat ended instead of {what}\nwritten: {self.raw[-600:]!r}")
            self.raw += data
            self.screen.write(data.decode())

    def expect_line(self, what, before, text):
        """The screen has the lines `before`, then the prompt and `text`, broken at the screen's width."""
        shown, columns = "> " + text, self.screen.columns
        rows = before + [shown[i : i + columns].rstrip() for i in range(0, len(shown), columns)]
        while rows and not rows[-1]:
            rows.pop()
        self.expect(f"{what}: expected\n" + "\n".join(rows) + "\nfound", lambda lines: lines == rows)
        self.wait_for_keys()

    def wait_for_keys(self):
        """The prompt comes a moment before keys are read one by one; what is typed in between the terminal itself shows."""
        end = time.monotonic() + PATIENCE
        while termios.tcgetattr(self.terminal)[3] & termios.ICANON and time.monotonic() < end:
            time.sleep(0.01)

    def show(self, title):
        print(f"--- {title} ({self.screen.columns} columns)")
        print("\n".join(self.screen.lines()))


def main():
    chat = Chat(sys.argv[1], 60)
    chat.expect("the prompt", lambda lines: lines == [">"])
    chat.wait_for_keys()

    text = "the quick brown fox jumps over the lazy dog and then goes on running through the forest until night falls on it"
    chat.type(text)
    chat.expect_line("typed", [], text)
    if chat.screen.bold:
        sys.exit("FAILED: what is typed is bold as the prompt is, and so would be the answer")
    for columns in (30, 90, 41, 25, 120, 37):
        chat.resize(columns)
        chat.expect_line(f"a window of {columns} columns", [], text)
        text += f" and {columns}"
        chat.type(f" and {columns}")
        chat.expect_line(f"typing on in {columns} columns", [], text)
        if columns in (30, 37):
            chat.show("a window of another width, and typing on")
    chat.type("\001")  # to the line's beginning
    chat.resize(50)
    chat.expect_line("the cursor at the beginning", [], text)
    chat.type("So ")
    chat.expect_line("typing there", [], "So " + text)
    chat.show("typing at the beginning")

    chat.type("\005\025/s\t")  # to the end, all of it away; a beginning that four commands have
    menu = ["> /s", "/save    /set     /stats   /system"]
    chat.expect_line("choices", menu, "/s")
    chat.type("y\t")
    chat.expect_line("the one that is left", menu, "/system ")
    chat.type("\r")
    menu += ["> /system", "no system message; /system TEXT sets one"]
    chat.expect_line("its answer", menu, "")
    chat.type("/system Be brief.\r")
    menu += ["> /system Be brief.", "system message set; a new conversation"]
    chat.expect_line("a system message", menu, "")
    chat.type("/system\r")
    menu += ["> /system", "Be brief."]
    chat.expect_line("it alone shows it", menu, "")
    chat.type("/system\r")
    menu += ["> /system", "Be brief."]
    chat.expect_line("and did not delete it", menu, "")
    chat.type("/set te\t0.5\r")
    menu += ["> /set temperature 0.5", "temperature is now 0.5"]
    chat.expect_line("a setting", menu, "")
    chat.type("not this")
    chat.expect_line("a line", menu, "not this")
    chat.type("\003")
    menu += ["> not this"]
    chat.expect_line("Ctrl-C drops the line", menu, "")
    chat.show("commands")
    chat.type("/quit\r")
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if not os.read(chat.terminal, 65536):
                break
        except OSError:  # the other end is closed
            break
        if time.monotonic() > deadline:
            sys.exit("FAILED: /quit does not end the chat")
    _, status = os.waitpid(chat.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"FAILED: exit status {status}")


if __name__ == "__main__":
    main()
