#!/usr/bin/env python3
# test/doc/blocks_test.py WEIRCTL PAGE... - what stands in the code blocks of the pages is code.
#
# By the language that a block is marked with:
#
#   c              compiles without a warning, as C11; a … stands for what the page leaves out, and is read as {}
#   json           is a policy that weirctl accepts
#   sh, console    is the shell's syntax; of a console, the lines after "$ "
#   proto          protoc takes it
#   python, bzl    is Python's syntax, which Starlark's is a part of
#   text, diff, cmake, make    is not looked at here: other tests run them, or nothing can
#
# A comment on the line above a block says what else is to be known:
#
#   <!-- in test/doc/frames/watch.c.in -->  the C stands in the place of the line BLOCK of that file
#   <!-- file: first.c -->                   a file of a walk-through (getting_started_test.py); looked at as any
#   <!-- not checked: why -->
#
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import unittest

COMPILE = "cc -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude -I. -c -x c - -o".split()
UNCHECKED = ("text", "diff", "cmake", "make")
COMMENT = re.compile(r"\s*<!-- (?:in (?P<frame>test/doc/frames/\w+\.c\.in)|file: (?P<file>[\w.-]+)|not checked: (?P<why>.+)) -->")


class Block:

    def __init__(self, page, line, language, above):
        self.where = f"{page}:{line}"
        self.language = language
        self.lines = []
        comment = COMMENT.fullmatch(above)
        self.frame = comment["frame"] if comment else None
        self.why_not = comment["why"] if comment else None

    def text(self):
        return "".join(line + "\n" for line in self.lines)


def blocks_of(page):
    with open(page, encoding="utf-8") as file:
        lines = file.read().split("\n")
    blocks = []
    fence = None
    for i, line in enumerate(lines):
        mark = re.match(r"\s*(```+|~~~+)\s*([^\s`]*)", line)
        if fence is None and mark:
            fence = mark[1]
            blocks.append(Block(page, i + 1, mark[2], lines[i - 1] if i > 0 else ""))
        elif fence is not None and line.strip() == fence:
            fence = None
        elif fence is not None:
            blocks[-1].lines.append(line)
    if fence is not None:
        raise AssertionError(f"{blocks[-1].where}: the block has no end")
    return blocks


def run(command, text, **options):
    """What the program has to say against the text; "" = nothing."""
    ran = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                         encoding="utf-8", **options)
    return ran.stdout if ran.returncode != 0 else ""


def compiled(block):
    text = block.text().replace("…", "{}")
    if block.frame:
        with open(block.frame, encoding="utf-8") as file:
            before, after = re.split(r"^BLOCK\n", file.read(), flags=re.MULTILINE)
        text = before + text + after
    with tempfile.TemporaryDirectory() as scratch:
        return run(COMPILE + [os.path.join(scratch, "block.o")], text)


def a_policy(block):
    return run([WEIRCTL, "check", "--quiet", "-"], block.text(), env={})


def shells(block):
    return run(["sh", "-n"], block.text())


def typed(block):
    return run(["sh", "-n"], "".join(line[2:] + "\n" for line in block.lines if line.startswith("$ ")))


def a_schema(block):
    with tempfile.TemporaryDirectory() as scratch:
        with open(os.path.join(scratch, "block.proto"), "w", encoding="utf-8") as file:
            file.write(block.text())
        return run(["protoc", "-I", scratch, "-o", "/dev/null", "block.proto"], "", cwd=scratch)


def pythons(block):
    try:
        compile(block.text(), block.where, "exec")
    except SyntaxError as error:
        return str(error)
    return ""


CHECKS = {
    "c": compiled,
    "json": a_policy,
    "sh": shells,
    "console": typed,
    "proto": a_schema,
    "python": pythons,
    "bzl": pythons,
}


def look(block):
    if block.language == "text" and re.search(r"\bweir_\w+\(.*;", block.text()) and not block.why_not:
        return "this is C: mark the block so"
    if block.language in UNCHECKED or block.why_not:
        return ""
    if block.language not in CHECKS:
        return f"the language '{block.language}' is none that is known here: mark the block with one (text is one)"
    return CHECKS[block.language](block)


class BlocksTest(unittest.TestCase):

    def test_what_stands_in_blocks_is_what_it_is_said_to_be(self):
        blocks = [block for page in PAGES for block in blocks_of(page)]
        self.assertGreater(len(blocks), 50)
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            answers = list(pool.map(look, blocks))
        wrong = [f"{block.where}: {answer}" for block, answer in zip(blocks, answers) if answer]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_what_is_broken_is_found(self):
        for language, text in (("c", "int f(void) { return x; }"), ("c", "int f(int unused) { return 1; }"),
                               ("json", '{"timeOut": "1s"}'), ("sh", "if true; then"), ("console", "$ echo 'x"),
                               ("proto", "message {"), ("python", "def f(:"), ("bzl", "cc_binary(name = "), ("", "x"),
                               ("text", "weir_call_unref(call);"),
                               ("unknown", "x")):
            block = Block("page", 1, language, "")
            block.lines = [text]
            self.assertNotEqual(look(block), "", (language, text))


if __name__ == "__main__":
    WEIRCTL = os.path.abspath(sys.argv[1])
    PAGES = [path for path in sys.argv[2:] if path.endswith(".md")]
    unittest.main(argv=sys.argv[:1])
