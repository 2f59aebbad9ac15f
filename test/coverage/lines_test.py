#!/usr/bin/env python3
# test/coverage/lines_test.py - what lines.py finds wrong in what is said of lines that did not run.
#
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import tempfile
import unittest

LINES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lines.py")

SOURCE = """int half(int n) {
  if (n < 0) {
    return -1;
  }
  if (n == 1) {
    return -1;
  }
  return n / 2;
}
"""


def named(*lines, reason="      nobody halves less than nothing\n"):
    return "# a comment\nsrc/half.c\n  half\n" + "".join(f"    {line}\n" for line in lines) + reason


class LinesTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.mkdir(self.path("src"))
        self.write("src/half.c", SOURCE)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def lines(self, *arguments):
        run = subprocess.run([sys.executable, LINES, *arguments], cwd=self.folder.name, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
        return run.returncode, run.stdout

    def check(self, not_run, uncovered):
        """Holds `uncovered` against a run of all lines but those."""
        lines = [{"line_number": number, "count": 0 if number in not_run else 3, "function": "half",
                  "gcovr/noncode": False} for number in (2, 3, 5, 6, 8)]
        self.write("trace.json", json.dumps({"files": [{"file": "src/half.c", "lines": lines}]}))
        self.write("uncovered.txt", uncovered)
        return self.lines("check", "trace.json", "uncovered.txt")

    def assert_good(self, not_run, uncovered):
        status, said = self.check(not_run, uncovered)
        self.assertEqual(status, 0, said)

    def assert_bad(self, not_run, uncovered, why):
        status, said = self.check(not_run, uncovered)
        self.assertEqual(status, 1, said)
        self.assertIn(why, said)

    def test_all_ran_and_none_is_named(self):
        self.assert_good([], "")

    def test_a_line_that_did_not_run_is_named(self):
        self.assert_good([3], named("- return -1;"))
        self.assert_bad([3], "", "src/half.c:3: half: return -1;    <- no test runs it")

    def test_a_line_that_stands_twice_is_named_as_often_as_it_did_not_run(self):
        self.assert_good([3, 6], named("- return -1;", "- return -1;"))
        self.assert_bad([3, 6], named("- return -1;"), "no test runs it")
        self.assert_bad([6], named("- return -1;", "- return -1;"), "a test runs it")

    def test_a_line_that_ran_is_not_named(self):
        self.assert_bad([], named("- return -1;"), "a test runs it")

    def test_a_line_that_runs_sometimes_may_do_both(self):
        self.assert_good([8], named("~ return n / 2;"))
        self.assert_good([], named("~ return n / 2;"))

    def test_a_line_that_is_gone_is_not_named(self):
        self.assert_bad([], named("- return 0;"), "is gone")
        self.assert_bad([], named("~ return 0;"), "is gone")
        self.assert_bad([3], named("- return -1;").replace("  half", "  third"), "is gone")

    def test_each_has_a_reason(self):
        self.assert_bad([3], named("- return -1;", reason=""), "no reason")
        self.assert_bad([3], named("- return -1;", reason="") + "src/other.c\n", "no reason")
        self.assert_good([3, 8], named("- return -1;", reason="") + "  half\n    - return n / 2;\n      why of both\n")

    def test_what_is_no_entry_is_told(self):
        self.assert_bad([3], named("return -1;"), "uncovered.txt:4: neither")

    def test_what_is_no_line_of_the_library_need_not_be_named(self):
        os.mkdir(self.path("cmd"))
        self.write("cmd/half.c", SOURCE)
        self.write("trace.json", json.dumps({"files": [{"file": "cmd/half.c", "lines": [
            {"line_number": 3, "count": 0, "function": "half", "gcovr/noncode": False}]}]}))
        self.write("uncovered.txt", "")
        self.assertEqual(self.lines("check", "trace.json", "uncovered.txt")[0], 0)

    def test_what_gcov_says_of_a_run_becomes_a_trace(self):
        self.write("src/main.c", "int half(int n);\nint main(void) {\n  return half(4) == 2 ? 0 : 1;\n}\n")
        build = ["gcc", "--coverage", "-c", "src/half.c", "src/main.c"]
        subprocess.run(build, cwd=self.folder.name, check=True)
        subprocess.run(["gcc", "--coverage", "half.o", "main.o"], cwd=self.folder.name, check=True)
        subprocess.run([self.path("a.out")], cwd=self.folder.name, env={}, check=True)  # make coverage's is elsewhere

        status, told = self.lines("trace", ".")
        self.assertEqual(status, 0, told)
        half = next(file for file in json.loads(told)["files"] if file["file"] == "src/half.c")
        not_run = {line["line_number"] for line in half["lines"] if line["count"] == 0}
        self.assertEqual(not_run, {3, 6})
        self.assertEqual({line["function"] for line in half["lines"]}, {"half"})

    def test_objects_without_notes_are_no_trace(self):
        status, told = self.lines("trace", ".")
        self.assertEqual(status, 1)
        self.assertIn("no .gcno", told)


if __name__ == "__main__":
    unittest.main()
