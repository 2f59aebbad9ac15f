#!/usr/bin/env python3
# test/doc/abi_test.py KEPT HEADER... - the layout of structs, the values of enums and the functions of the public headers
# are those in KEPT (doc/abi.md says what may change, and what a change means).
#
#   test/doc/abi_test.py --write       after a change that is meant: writes test/doc/abi/x86_64.txt
#
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

KEPT = "test/doc/abi/x86_64.txt"
HEAD = """\
# What a compiled program knows of weir: offsets and sizes in bytes, values, functions. test/doc/abi_test.py --write.
#
# SPDX-License-Identifier: Apache-2.0
"""


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def fields_of(body):
    for declaration in body.split(";"):
        name = re.search(r"\(\*(\w+)\)", declaration) or re.search(r"(\w+)\s*(?:\[[^\]]*\])*\s*$", declaration)
        if name:
            yield name[1]


def program_of(headers):
    """A program that prints the layout of all structs, and the values of all enums."""
    lines = ["#include <stddef.h>", "#include <stdio.h>", "#include <weir/weir.h>", "int main(void) {"]
    for struct, body in re.findall(r"^struct (\w+) \{(.*?)^\};", headers, re.MULTILINE | re.DOTALL):
        lines.append(f'  printf("struct {struct} %zu\\n", sizeof(struct {struct}));')
        for field in fields_of(body):
            lines.append(f'  printf("struct {struct}.{field} %zu %zu\\n", offsetof(struct {struct}, {field}), '
                         f"sizeof(((struct {struct} *)0)->{field}));")
    for enum, body in re.findall(r"^enum (\w+) \{(.*?)\}", headers, re.MULTILINE | re.DOTALL):
        for value in re.findall(r"\b(WEIR_\w+)", body):
            lines.append(f'  printf("enum {enum} {value} %d\\n", (int){value});')
    return "\n".join(lines + ["  return 0;", "}", ""])


def functions_of(headers):
    for function in re.findall(r"^WEIR_API (.*?);", headers, re.MULTILINE | re.DOTALL):
        yield "function " + re.sub(r"\s+", " ", function.replace("WEIR_MUST_CHECK", "")).strip()


def abi_of(paths):
    headers = without_comments("\n".join(text_of(path) for path in sorted(paths)))
    with tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "layout")
        subprocess.run(["cc", "-std=c11", "-Iinclude", "-x", "c", "-", "-o", program], input=program_of(headers), check=True,
                       encoding="utf-8")
        layout = subprocess.run([program], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    return layout.splitlines() + sorted(functions_of(headers))


class AbiTest(unittest.TestCase):

    def test_it_is_what_is_kept(self):
        kept = [line for line in text_of(KEPT).splitlines() if not line.startswith("#")]
        now = abi_of(HEADERS)
        self.assertGreater(len(now), 400)
        gone = [line for line in kept if line not in now]
        new = [line for line in now if line not in kept]
        self.assertEqual((gone, new), ([], []), "\nchanged or gone:\n  " + "\n  ".join(gone) + "\nnew:\n  " +
                         "\n  ".join(new) + "\nRead doc/abi.md; if it is meant so: test/doc/abi_test.py --write")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
        with open(KEPT, "w", encoding="utf-8") as written:
            written.write(HEAD + "\n".join(abi_of(glob.glob("include/weir/*.h"))) + "\n")
    else:
        KEPT, HEADERS = sys.argv[1], sys.argv[2:]
        unittest.main(argv=sys.argv[:1])
