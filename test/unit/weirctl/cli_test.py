#!/usr/bin/env python3
"""weirctl as its users run it: cli_test.py PROGRAM COMPLETION MAN_PAGE DOCUMENT [few]

With "few", those tests alone that take many documents in few runs.

What it prints, on which stream, and what it exits with, for files of all kinds. Each test is a claim.

SPDX-License-Identifier: Apache-2.0
"""
import functools
import json
import os
import pty
import re
import resource
import subprocess
import sys
import tempfile

PROGRAM, COMPLETION, MAN_PAGE, DOCUMENT = (os.path.abspath(path) for path in sys.argv[1:5])
FOLDER = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
os.chdir(FOLDER)

ACCEPTED, REFUSED, FAILED = 0, 1, 2
RETRY = ('"retryPolicy": {"maxAttempts": %d, "initialBackoff": "%s", "maxBackoff": "1s", "backoffMultiplier": 2,'
         ' "retryableStatusCodes": [%s]}')
RETRIES = RETRY % (3, "0.1s", '"UNAVAILABLE"')
THROTTLE = '"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}'


class Run:
    """One run of weirctl: what came of it."""

    def __init__(self, *words, stdin=b"", environment=None, **how):
        variables = {key: value for key, value in os.environ.items()
                     if key not in ("NO_COLOR", "TERM", "WEIR_ORG_POLICY")}
        variables.update(environment or {})
        how.setdefault("stdout", subprocess.PIPE)
        done = subprocess.run([PROGRAM, *words], input=stdin, stderr=subprocess.PIPE, env=variables, check=False,
                              timeout=300, **how)
        self.status = done.returncode
        self.stdout = (done.stdout or b"").decode("utf-8", "surrogateescape")
        self.stderr = (done.stderr or b"").decode("utf-8", "surrogateescape")
        for word in ("Sanitizer", "runtime error", "Assertion"):
            assert word not in self.stderr, self.stderr

    def json(self):
        return json.loads(self.stdout)

    def __str__(self):
        return "status %s\n%s%s" % (self.status, self.stdout, self.stderr)


def write(name, text):
    with open(name, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    return name


def read(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def same(got, expected, why=""):
    assert got == expected, "%s: got %r, expected %r" % (why, got, expected)


def has(text, part, why=""):
    assert part in text, "%s: no %r in:\n%s" % (why, part, text[:2000])


def entry(keys, name='{"service": "a.B"}'):
    return '{"methodConfig": [{"name": [%s], %s}], %s}' % (name, keys, THROTTLE)


def found(problems):
    """The ids of a run's problems, with their places."""
    return [(problem["id"], problem["path"], problem["line"], problem["column"]) for problem in problems]


# ---- verdicts

# why, the document, its verdict, what the text says
DOCUMENTS = [
    ("the empty document", "{}", ACCEPTED, "accepted"),
    ("an unknown key", '{\n  "retryPolicy": 1}', REFUSED, "f.json:2:3: error: retryPolicy: unknown key here"),
    ("a wrong type", '{"methodConfig": [{"name": [{}],\n"waitForReady": "yes"}]}', REFUSED,
     "f.json:2:17: error: methodConfig[0].waitForReady: must be a boolean"),
    ("out of range", '{"methodConfig": [{"name": [{"service": "a.B"}],\n ' +
     (RETRY % (3, "0.1s", "14")).replace('"1s"', '"0s"') + '}]}', REFUSED,
     "error: methodConfig[0].retryPolicy.maxBackoff: must be > 0s"),
    ("something missing", '{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3}}]}', REFUSED,
     "error: methodConfig[0].retryPolicy.initialBackoff: missing"),
    ("a name twice", '{"methodConfig": [{"name": [{}]}, {"name": [{"service": ""}]}]}', REFUSED,
     "error: methodConfig[1].name[0]: second default entry"),
    ("a throttle out of range", '{"retryThrottling": {"maxTokens": 1001, "tokenRatio": 0.0004}}', REFUSED,
     "error: retryThrottling.tokenRatio: "),
    ("a duration in other words", '{"deadline": {"maxTimeout": "500ms"}}', REFUSED, 'write "0.5s"'),
    ("retries and hedging", '{"methodConfig": [{"name": [{}], ' + RETRIES + ', "hedgingPolicy": {}}]}', REFUSED,
     "exclude each other"),
    ("a DNS record around it", '{"serviceConfig": {}}', REFUSED, "gRFC A2"),
    ("100 attempts", entry('"idempotent": true, ' + RETRY % (100, "0.1s", "14")), ACCEPTED,
     "warning: methodConfig[0].retryPolicy.maxAttempts: 100 clamped to 5 [attempts-clamped]"),
    ("codes as numbers and in any case", entry('"idempotent": true, ' + RETRY % (3, "0.1s", '14, "Aborted"')), ACCEPTED,
     "f.json: accepted\n"),
    ("no name", '{"methodConfig": [{"name": [], "timeout": "1s"}]}', ACCEPTED,
     "warning: methodConfig[0]: has no name and is ignored [entry-without-name]"),
    ("a star in a name", '{"methodConfig": [{"name": [{"service": "a.*"}]}]}', ACCEPTED, "[name-wildcard]"),
    ("hedging alone", '{"methodConfig": [{"name": [{}], "hedgingPolicy": {}}]}', ACCEPTED, "[hedging-ignored]"),
    ("a comment", '{\n  // no\n}', REFUSED, "f.json:2:3: error: a comment"),
    ("a trailing comma", '{"name": "a",}', REFUSED, "f.json:1:13: error: a comma before"),
    ("a byte order mark", b"\xef\xbb\xbf{}", REFUSED, "f.json:1:1: error: a UTF-8 byte order mark"),
    ("NUL padding", b"{}\0\0", REFUSED, "f.json:1:3: error: "),
    ("nothing", "", REFUSED, "f.json:1:1: error: "),
    ("a list", "[]", REFUSED, "error: must be an object"),
    ("no UTF-8", b'{"name": "\xff"}', REFUSED, "f.json:1:11: error: "),
    ("a key twice", '{"name": "a", "name": "b"}', REFUSED, "f.json:1:15: error: name: "),
    ("ten thousand levels", '{"loadBalancingConfig": ' + "[" * 10000 + "]" * 10000 + "}", REFUSED, "error: "),
    ("a number like 01", '{"breaker": {"probes": 01}}', REFUSED, "f.json:1:2"),
    ("a number like 1e400", '{"breaker": {"failureRatio": 1e400}}', REFUSED, "breaker.failureRatio"),
    ("more than 4 MiB", " " * (4 * 1024 * 1024 + 1) + "{}", REFUSED, "error: "),
]


def write_all(documents):
    return [write("%03d.json" % i, document) for i, document in enumerate(documents)]


def tells_the_verdict_of_every_kind_of_document():
    names = write_all(document for _, document, _, _ in DOCUMENTS)
    run = Run("check", *names)
    same((run.status, run.stderr), (REFUSED, ""))
    for name, (why, _, status, text) in zip(names, DOCUMENTS):
        told = "".join(line + "\n" for line in run.stdout.splitlines() if line.startswith(name))
        has(told, text.replace("f.json", name), why)
        has(told, "%s: %s" % (name, "accepted" if status == ACCEPTED else "refused, "), why)


def tells_the_same_verdict_in_json():
    run = Run("check", "--json", *write_all(document for _, document, _, _ in DOCUMENTS))
    same(run.status, REFUSED)
    for file, (why, _, status, _) in zip(run.json()["files"], DOCUMENTS):
        same(file["verdict"], "accepted" if status == ACCEPTED else "refused", why)
        same(file["errors"] > 0, status == REFUSED, why)
        same(file["methods"] != [], status == ACCEPTED, why)


def tells_all_problems_of_a_document():
    run = Run("check", "--json", write("f.json", '{"a": 1,\n "b": 2,\n "name": "",\n "deadline": {"maxTimeout": 5}}'))
    same([(problem["path"], problem["line"], problem["severity"], problem["id"])
          for problem in run.json()["files"][0]["problems"]],
         [("a", 1, "error", "invalid"), ("b", 2, "error", "invalid"),
          ("deadline.maxTimeout", 4, "error", "invalid"), ("name", 3, "error", "invalid")])


def lenient_makes_unknown_keys_warnings_and_nothing_else():
    unknown = write("unknown.json", '{"later": 1}')
    same(Run("check", unknown).status, REFUSED)
    run = Run("check", "--lenient", unknown)
    same(run.status, ACCEPTED)
    has(run.stdout, "unknown.json:1:2: warning: later: unknown key [unknown-key]")
    same(Run("check", "--lenient", write("wrong.json", '{"name": 1}')).status, REFUSED)
    run = Run("check", "--lenient", write("key.json", '{"methodConfig": [{"name": [{}], "x": {"timeout": 1}}]}'))
    has(run.stdout, "key.json:1:34: warning: methodConfig[0].x: unknown key [unknown-key]")


def what_enforces_nothing_is_warned_of_as_that():
    run = Run("check", "-q", write("nothing.json", '{"enforce": {"translation": {"boundary": false}}}'))
    same((run.status, run.stdout), (ACCEPTED, "nothing.json:1:42: warning: enforce.translation.boundary: "
                                    "enforces nothing: no value is weaker [enforces-nothing]\n"))


def counts_what_it_does_not_keep():
    document = '{"methodConfig": [%s]}' % ",".join(["1"] * 10007)
    told = Run("check", "--json", write("f.json", document)).json()["files"][0]
    same((told["errors"], len(told["problems"]), told["problems_left_out"]), (10007, 10000, 7))
    has(Run("check", "f.json").stdout, "... and 7 more\n")


# ---- an organisation's document

ORGANISATION = """{
  "retry": {"replayBytes": 1000},
  "enforce": {
    "translation": {"boundary": true},
    "methodConfig": [{"name": [{}],
      "retryPolicy": {"maxAttempts": 3}}]}}"""
ATTEMPTS = """{"methodConfig": [{"name": [{"service": "a.B"}], "idempotent": true,
  "retryPolicy": {"maxAttempts": %d, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
  "retryableStatusCodes": [14]}}], """ + THROTTLE + "}"


def names_both_places_of_what_is_weaker():
    write("org.json", ORGANISATION)
    run = Run("check", "--org", "org.json", write("f.json", ATTEMPTS % 4))
    same(run.status, REFUSED)
    has(run.stdout, "f.json:2:34: error: methodConfig[0].retryPolicy.maxAttempts: ")
    has(run.stdout, "[weaker]\norg.json:6:38: note: enforce.methodConfig[0].retryPolicy.maxAttempts: ")
    told = Run("check", "--json", "--org", "org.json", "f.json").json()
    same((told["verdict"], told["organisation"]["verdict"], told["files"][0]["verdict"]),
         ("refused", "accepted", "refused"))
    problem = told["files"][0]["problems"][0]
    same(problem["other"], {"file": "org.json", "path": "enforce.methodConfig[0].retryPolicy.maxAttempts",
                            "line": 6, "column": 38})
    has(Run("check", "--org", "org.json", write("f.json", '{"translation": {"boundary": false}}')).stdout,
        "f.json:1:30: error: translation.boundary: ")


def accepts_what_is_as_strict_and_tells_the_worst_case_of_both():
    write("org.json", ORGANISATION)
    told = Run("check", "--json", "--org", "org.json", write("f.json", ATTEMPTS % 3)).json()["files"][0]
    same((told["verdict"], told["problems"]), ("accepted", []))
    same((told["methods"][0]["unary_attempts"], told["methods"][0]["entry"]),
         (3, {"file": "f.json", "path": "methodConfig[0]", "line": 1, "column": 19}))


def warns_of_what_is_above_a_ceiling():
    write("org.json", ORGANISATION)
    run = Run("check", "--json", "--org", "org.json", write("f.json", '{"retry":\n{"replayBytes": 2000}}'))
    same(run.status, ACCEPTED)
    problem = run.json()["files"][0]["problems"][0]
    same((problem["severity"], problem["id"], problem["path"], problem["line"], problem["other"]["line"]),
         ("warning", "ceiling", "retry.replayBytes", 2, 2))


def warnings_of_an_entry_name_it_under_an_organisation_too():
    write("org.json", ORGANISATION)
    document = entry(RETRIES).replace('"methodConfig": [', '"methodConfig": [{"name": [{}]},\n')
    told = Run("check", "--json", "--org", "org.json", write("f.json", document)).json()["files"][0]
    same(found(told["problems"])[:1], [("retry-not-idempotent", "methodConfig[1].retryPolicy", 2, 47)])


def the_organisations_own_problems_come_first_and_once():
    write("org.json", '{"breaker": {"enabled": false}}')
    run = Run("check", "--org", "org.json", write("f.json", "{}"))
    same(run.status, ACCEPTED)
    same(run.stdout.count("[breaker-off]"), 1)
    assert run.stdout.startswith("org.json:1:25: warning: breaker.enabled: "), run


def documents_are_told_of_by_themselves_where_the_organisations_is_bad():
    write("org.json", '{"later": 1}')
    run = Run("check", "--org", "org.json", write("f.json", "{}"))
    same(run.status, REFUSED)
    has(run.stdout, "org.json: refused, 1 error\nf.json: accepted, by itself: ")
    same(Run("check", "--lenient", "--org", "org.json", "f.json").status, ACCEPTED)
    run = Run("check", "--org", "missing.json", "f.json")
    same((run.status, run.stderr), (FAILED, "weirctl: missing.json: No such file or directory\n"))
    has(run.stdout, "f.json: accepted")


def the_organisations_document_is_that_of_the_environment():
    write("org.json", ORGANISATION)
    open_boundary = write("f.json", '{"translation": {"boundary": false}}')
    environment = {"WEIR_ORG_POLICY": "org.json"}
    same(Run("check", open_boundary).status, ACCEPTED)
    same(Run("check", open_boundary, environment=environment).status, REFUSED)
    same(Run("check", "--org=", open_boundary, environment=environment).status, ACCEPTED)
    same(Run("check", open_boundary, environment={"WEIR_ORG_POLICY": ""}).status, ACCEPTED)
    same(Run("check", "./org.json", environment=environment).status, ACCEPTED)
    same(Run("check", "--json", open_boundary).json()["organisation"], None)


def what_init_prints_holds_under_what_it_prints_for_an_organisation():
    Run("init", "--org", "-o", "first-org.json")
    Run("init", "--service", "a.B", "--idempotent", "-o", "first.json")
    told = Run("check", "--json", "--org", "first-org.json", "first.json").json()
    same((told["verdict"], told["files"][0]["problems"]), ("accepted", []))


# ---- several files, and what can't be read

def the_worst_of_several_files_counts():
    good, bad = write("good.json", "{}"), write("bad.json", "{]")
    same(Run("check", good, good).status, ACCEPTED)
    same(Run("check", good, bad, good).status, REFUSED)
    run = Run("check", bad, "missing.json", good)
    same(run.status, FAILED)
    same(run.stderr, "weirctl: missing.json: No such file or directory\n")
    has(run.stdout, "bad.json: refused, 1 error\n")
    has(run.stdout, "good.json: accepted\n")
    told = Run("check", "--json", bad, "missing.json", good).json()
    same([(file["file"], file["verdict"]) for file in told["files"]],
         [("bad.json", "refused"), ("missing.json", "unreadable"), ("good.json", "accepted")])
    same(told["verdict"], "unreadable")


def a_folder_is_no_document():
    os.makedirs("folder", exist_ok=True)
    run = Run("check", "folder")
    same((run.status, run.stdout, run.stderr), (FAILED, "", "weirctl: folder: Is a directory\n"))


def an_endless_file_ends():
    run = Run("check", "/dev/zero")
    same(run.status, REFUSED)


def reads_standard_input_once():
    run = Run("check", "-", stdin=b'{"name": 5}')
    same(run.status, REFUSED)
    has(run.stdout, "<stdin>:1:10: error: name: ")
    same(Run("check", "--json", "-", stdin=b"{}").json()["files"][0]["file"], "-")
    run = Run("check", "-", "-", stdin=b"{}")
    same((run.status, run.stdout), (FAILED, ""))
    has(run.stderr, "only once")


def many_files_leave_no_descriptor_open():
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
    good = write("good.json", "{}")
    run = Run("check", "-q", *[good] * 200, preexec_fn=few)
    same((run.status, run.stdout, run.stderr), (ACCEPTED, "", ""))


def a_policy_of_many_methods_is_told_whole():
    document = '{"methodConfig": [%s]}' % ",".join('{"name": [{"service": "a.B", "method": "M%d"}]}' % i
                                                   for i in range(10000))
    told = Run("check", "--json", write("f.json", document)).json()["files"][0]
    same(len(told["methods"]), 10001)
    same(told["methods"][9999]["entry"]["path"], "methodConfig[9999]")


# ---- the command line

def wrong_usage_is_told_on_standard_error():
    good = write("good.json", "{}")
    for words, text in [((), "usage: weirctl VERB"),
                        (("chekc", good), "unknown verb 'chekc'"),
                        (("--json", "check", good), "unknown option '--json'"),
                        (("check",), "an operand is missing"),
                        (("check", "--jso", good), "unknown option '--jso'"),
                        (("check", "-x", good), "unknown option '-x'"),
                        (("check", "--color", "blue", good), "'blue' is none of"),
                        (("check", good, "--color"), "needs a value: WHEN"),
                        (("check", "--json=1", good), "takes no value"),
                        (("init", "more"), "too many operands"),
                        (("init", "-o", "a", "-o", "b"), "--output is given twice"),
                        (("init", "--org", "--service", "a.B"), "exclude each other"),
                        (("init", "--idempotent"), "--service"),
                        (("init", "--service="), "an empty name"),
                        (("init", "--service", "a.B/C"), "slash")]:
        run = Run(*words)
        same((run.status, run.stdout), (FAILED, ""), words)
        has(run.stderr, text, words)


def options_may_stand_anywhere_before_two_dashes():
    good, odd = write("good.json", "{}"), write("--json", "{}")
    same(Run("check", good, "--json").json()["verdict"], "accepted")
    same(Run("check", "--color=never", good).status, ACCEPTED)
    same(Run("check", "--color", "never", good).status, ACCEPTED)
    has(Run("check", "--", odd).stdout, "--json: accepted\n")


def help_and_version_are_told_on_standard_output():
    for words, text in [(("--help",), "usage: weirctl VERB"), (("help",), "usage: weirctl VERB"),
                        (("--version",), "weirctl "), (("check", "--help"), "usage: weirctl check"),
                        (("init", "-h"), "usage: weirctl init")]:
        run = Run(*words)
        same((run.status, run.stderr), (ACCEPTED, ""), words)
        has(run.stdout, text, words)


def quiet_leaves_the_problems():
    run = Run("check", "-q", write("f.json", '{"breaker": {"enabled": false}}'))
    same(run.stdout.count("\n"), 1)
    has(run.stdout, "[breaker-off]")


def werror_refuses_what_is_warned_of():
    warned = write("warned.json", '{"breaker": {"enabled": false}}')
    same(Run("check", warned).status, ACCEPTED)
    run = Run("check", "--werror", warned)
    same(run.status, REFUSED)
    has(run.stdout, "warned.json: refused, 1 warning\n")
    same(Run("check", "--werror", write("good.json", "{}")).status, ACCEPTED)


# ---- streams

def what_can_not_be_written_is_a_failure():
    good = write("good.json", "{}")
    for words in [("check", good), ("check", "--json", good), ("init",), ("--help",), ("--version",)]:
        with open("/dev/full", "wb") as full:
            run = Run(*words, stdout=full)
        same((run.status, run.stderr), (FAILED, "weirctl: standard output: No space left on device\n"), words)


def whoever_closed_the_pipe_is_not_told():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as broken:
        run = Run("check", write("good.json", "{}"), stdout=broken)
    same((run.status, run.stderr), (FAILED, ""))


def a_closed_stream_is_never_taken_for_a_file():
    document = write("good.json", "{}")
    same(Run("check", document, preexec_fn=lambda: os.close(1)).status, FAILED)
    run = Run("check", "-", preexec_fn=lambda: os.close(0))
    same(run.status, FAILED)
    has(run.stderr, "<stdin>: ")
    same(Run("init", "-o", "new.json", preexec_fn=lambda: (os.close(1), os.close(2))).status, ACCEPTED)
    same(Run("check", "new.json").status, ACCEPTED)


def on_terminal(*words, **environment):
    """What weirctl prints on a terminal."""
    master, terminal = pty.openpty()
    run = Run(*words, stdout=terminal, environment=environment)
    os.close(terminal)
    text = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(master)
    return run.status, text.decode()


def colors_are_for_terminals_that_want_them():
    bad = write("bad.json", "{]")
    for why, words, environment, colored in [
            ("a terminal", ("check", bad), {"TERM": "xterm"}, True),
            ("NO_COLOR", ("check", bad), {"TERM": "xterm", "NO_COLOR": "1"}, False),
            ("an empty NO_COLOR", ("check", bad), {"TERM": "xterm", "NO_COLOR": ""}, True),
            ("a dumb terminal", ("check", bad), {"TERM": "dumb"}, False),
            ("no TERM", ("check", bad), {}, False),
            ("never", ("check", "--color=never", bad), {"TERM": "xterm"}, False),
            ("JSON", ("check", "--json", bad), {"TERM": "xterm"}, False)]:
        status, text = on_terminal(*words, **environment)
        same(status, REFUSED, why)
        same("\033[" in text, colored, why)
    same("\033[" in Run("check", bad, environment={"TERM": "xterm"}).stdout, False, "a pipe")
    same("\033[" in Run("check", "--color=always", bad, environment={"NO_COLOR": "1"}).stdout, True, "always")


def foreign_text_moves_no_cursor():
    name = write(b"a\x1b[2J\xc2\x9b\xe2\x80\xae\xff\n.json", '{"x\\u001b\\u009by": 1}')
    run = Run("check", name)
    same(run.status, REFUSED)
    for control in ("\x1b", "\x9b", "\u202e", "\udcff"):
        assert control not in run.stdout, run
    same(run.stdout.count("\n"), 2)
    told = Run("check", "--json", name).json()["files"][0]
    same(told["file"], "a\x1b[2J\x9b\u202e\ufffd\n.json")
    assert all(ord(c) < 128 for c in Run("check", "--json", name).stdout)
    assert "\x1b" not in Run("check", b"\x1bmissing").stderr


def keys_keep_their_order():
    pairs = json.loads(Run("check", "--json", write("f.json", '{"breaker": {"enabled": false}}')).stdout,
                       object_pairs_hook=list)
    same([key for key, _ in pairs], ["verdict", "organisation", "files"])
    file = dict(pairs)["files"][0]
    same([key for key, _ in file],
         ["file", "verdict", "errors", "warnings", "problems", "problems_left_out", "methods"])
    same([key for key, _ in dict(file)["problems"][0]],
         ["severity", "id", "file", "path", "line", "column", "message"])
    same([key for key, _ in dict(file)["methods"][0]],
         ["name", "entry", "unary_attempts", "longest_unary_seconds", "unary_deadline_seconds",
          "default_unary_deadline_seconds", "stream_attempts", "longest_stream_seconds", "stream_deadline_seconds",
          "default_stream_deadline_seconds"])


# ---- warnings

def translation(text):
    return '{"translation":\n{%s}}' % text


ROUTE_LOOKUP = '[{"rls_experimental": {"routeLookupConfig": {"lookupService": "elsewhere:1"}}}]'

# the document; id, path, line, column of each warning
WARNINGS = [
    (entry('"idempotent": true, ' + RETRIES), []),
    (entry('"idempotent": false,\n' + RETRIES), [("retry-not-idempotent", "methodConfig[0].retryPolicy", 2, 16)]),
    (entry(RETRIES).replace(THROTTLE, '"retry":\n{"owner": "NEVER"}'), [("retry-owner-never", "retry.owner", 2, 11)]),
    (entry('"idempotent": true, ' + RETRIES).replace(THROTTLE, THROTTLE + ',\n"retry": {"owner": "ALWAYS"}'),
     [("retry-owner-nested", "retry.owner", 2, 20)]),
    ('{"retry": {"owner": "ALWAYS"}}', []),
    (entry('"idempotent": true,\n' + RETRIES).replace(THROTTLE, '"name": "x"'),
     [("throttle-missing", "methodConfig[0].retryPolicy", 2, 16)]),
    (entry('"idempotent": true,\n' + RETRY % (3, "0.1s", '1, "DEADLINE_EXCEEDED"')),
     [("retry-code-local", "methodConfig[0].retryPolicy.retryableStatusCodes", 2, 129)]),
    (entry('"idempotent": true,\n' + RETRY % (3, "0.1s", '"UNKNOWN", "INTERNAL", "DATA_LOSS", 14')),
     [("retry-code-unsafe", "methodConfig[0].retryPolicy.retryableStatusCodes", 2, 129)]),
    (entry('"idempotent": true,\n' + RETRY % (3, "0.1s", '"NOT_FOUND", 14')),
     [("retry-code-final", "methodConfig[0].retryPolicy.retryableStatusCodes", 2, 129)]),
    (entry('"idempotent": true, ' + RETRY % (3, "0.1s", "8, 10, 14")), []),
    (entry('"idempotent": true, "timeout": "2s", "perAttemptTimeout": "0.5s", ' + RETRIES), []),
    (entry('"idempotent": true, "timeout": "2s",\n"perAttemptTimeout": "0.6s", ' + RETRIES),
     [("attempts-beyond-deadline", "methodConfig[0].perAttemptTimeout", 2, 22)]),
    (entry('"idempotent": true,\n"perAttemptTimeout": "20s", ' + RETRIES),
     [("attempts-beyond-deadline", "methodConfig[0].perAttemptTimeout", 2, 22)]),
    (entry('"timeout": "2s",\n"perAttemptTimeout": "2s"'),
     [("attempt-timeout-no-use", "methodConfig[0].perAttemptTimeout", 2, 22)]),
    (entry('"idempotent": true, "timeout": "20s", ' + RETRIES), []),
    (entry('"idempotent": true,\n"timeout": "20.1s", ' + RETRIES),
     [("timeout-of-all-attempts", "methodConfig[0].timeout", 2, 12)]),
    (entry('"idempotent": true, "timeout": "2s",\n' + RETRY % (3, "3s", "14")),
     [("retry-never-fits", "methodConfig[0].retryPolicy.maxAttempts", 2, 32)]),
    (entry('"timeout":\n"0s"'), [("timeout", "methodConfig[0].timeout", 2, 1)]),
    (entry('"timeout":\n"61s"'), [("timeout", "methodConfig[0].timeout", 2, 1)]),
    ('{"deadline":\n{"inheritsParent": false}}', [("parent-ignored", "deadline.inheritsParent", 2, 20)]),
    ('{"breaker":\n{"enabled": false, "mode": "SHADOW"}}', [("breaker-off", "breaker.enabled", 2, 13)]),
    ('{"breaker":\n{"mode": "shadow"}}', [("breaker-shadow", "breaker.mode", 2, 10)]),
    ('{"breaker": {"enabled": true, "mode": "ENFORCE"}, "deadline": {"inheritsParent": true}}', []),
    (translation('"boundary": false, "codes": {"INTERNAL": "UNAVAILABLE"}'),
     [("boundary-off", "translation.boundary", 2, 14)]),
    (translation('"codes": {"INTERNAL": "UNAVAILABLE"}'),
     [("translation-invites-retries", "translation.codes.INTERNAL", 2, 24)]),
    (translation('"codes": {"INTERNAL": "INVALID_ARGUMENT"}'),
     [("translation-blames-caller", "translation.codes.INTERNAL", 2, 24)]),
    (translation('"codes": {"ABORTED": "UNAVAILABLE", "DEADLINE_EXCEEDED": "UNAVAILABLE", "NOT_FOUND": "INTERNAL"}'), []),
    (translation('"deadlineExceededAs": "ABORTED"'),
     [("translation-invites-retries", "translation.deadlineExceededAs", 2, 24)]),
    (translation('"deadlineExceededAs": "UNAVAILABLE"'), []),
    (translation('"keepMetadata": ["x-request-id", "authorization", "set-cookie"]'),
     [("keep-sensitive-metadata", "translation.keepMetadata[1]", 2, 35),
      ("keep-sensitive-metadata", "translation.keepMetadata[2]", 2, 52)]),
    (translation('"keepDetails": ["google.rpc.RetryInfo", "google.rpc.DebugInfo"]'),
     [("keep-debug-info", "translation.keepDetails[1]", 2, 42)]),
    ('{"methodConfig": [{"name": [{"service": "a.B"}]},\n{"name": [{}], "translation": {"boundary": false}}]}',
     [("boundary-off", "methodConfig[1].translation.boundary", 2, 44)]),
    ('{"loadBalancingConfig":\n%s}' % ROUTE_LOOKUP, [("balancing-asks-server", "loadBalancingConfig", 2, 1)]),
    ('{"loadBalancingConfig":\n[{"round_robin": {}},\n{"grpclb": {"childPolicy": %s}}]}' % ROUTE_LOOKUP,
     [("balancing-asks-server", "loadBalancingConfig", 2, 1)]),
    ('{"loadBalancingConfig": [{"\\u0072ls_experimental": {"\\u0000": 1}}]}',
     [("balancing-asks-server", "loadBalancingConfig", 1, 25)]),
    ('{"loadBalancingConfig": [{"grpclb": {"serviceName": "rls_experimental"}}, {"rls_experimental2": {}}]}', []),
    ('{"loadBalancingPolicy": "round_robin", "healthCheckConfig": {"rls_experimental": {}}}', []),
    ('{"enforce":\n{"loadBalancingConfig": %s}}' % ROUTE_LOOKUP,
     [("balancing-asks-server", "loadBalancingConfig", 2, 25)]),
]


def warns_of_what_is_seldom_meant_and_of_nothing_else():
    run = Run("check", "--json", *write_all(document for document, _ in WARNINGS))
    same(run.status, ACCEPTED)
    for file, (document, expected) in zip(run.json()["files"], WARNINGS):
        same(found(file["problems"]), expected, document)


def a_warning_names_the_methods():
    run = Run("check", write("f.json", entry(RETRIES, '{"service": "a.B", "method": "C"}, {"service": "a.D"}')))
    has(run.stdout, "retries /a.B/C and 1 more, not marked idempotent")
    run = Run("check", write("f.json", entry(RETRIES, "{}")))
    has(run.stdout, "retries all other methods, not marked idempotent")


# ---- the worst case

def tells_the_worst_case_of_each_name():
    document = entry('"timeout": "9s", "perAttemptTimeout": "1s", "idempotent": true, ' + RETRIES,
                     '{"service": "a.B", "method": "C"}, {"service": "a.D"}')
    run = Run("check", write("f.json", document))
    lines = [line.split() for line in run.stdout.splitlines()]
    assert ["3.36s", "3", "9s", "3", "/a.B/C"] in lines, run
    assert ["3.36s", "3", "9s", "3", "/a.D/*"] in lines, run
    assert ["60s", "1", "none", "1", "all", "other", "methods"] in lines, run
    methods = Run("check", "--json", "f.json").json()["files"][0]["methods"]
    same([method["name"] for method in methods], ["/a.B/C", "/a.D/*", "*"])
    same(methods[0], {"name": "/a.B/C",
                      "entry": {"file": "f.json", "path": "methodConfig[0]", "line": 1, "column": 19},
                      "unary_attempts": 3, "longest_unary_seconds": 3.36, "unary_deadline_seconds": 9,
                      "default_unary_deadline_seconds": 9, "stream_attempts": 3, "longest_stream_seconds": 9,
                      "stream_deadline_seconds": 9, "default_stream_deadline_seconds": 9})
    same((methods[2]["entry"], methods[2]["default_unary_deadline_seconds"], methods[2]["longest_stream_seconds"]),
         (None, 10, None))


# ---- init

def what_init_prints_has_no_problem():
    for words in [(), ("--service", "a.B"), ("--service", "a.B", "--idempotent"), ("--org",)]:
        run = Run("init", *words)
        same((run.status, run.stderr), (ACCEPTED, ""), words)
        checked = Run("check", "--json", "-", stdin=run.stdout.encode())
        same((checked.status, checked.json()["files"][0]["problems"]), (ACCEPTED, []), words)
        same(Run("init", "--json", *words).stdout, run.stdout, words)


def init_writes_new_files_only():
    run = Run("init", "-o", "policy.json")
    same((run.status, run.stdout, run.stderr), (ACCEPTED, "", ""))
    same(read("policy.json"), Run("init").stdout)
    for path, why in [("policy.json", "File exists"), ("nowhere/policy.json", "No such file or directory"),
                      (".", "File exists")]:
        run = Run("init", "--org", "-o", path)
        same((run.status, run.stdout, run.stderr), (FAILED, "", "weirctl: %s: %s\n" % (path, why)))
    os.symlink("elsewhere.json", "link.json")
    same(Run("init", "--output=link.json").status, FAILED)
    same(os.path.exists("elsewhere.json"), False)
    same(Run("init", "--json", "--output=second.json").json(), {"file": "second.json"})
    same(Run("init", "-o", "-").stdout, Run("init").stdout)


def a_file_that_can_not_be_written_whole_is_taken_away():
    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    # What gcov counts (make coverage) would be cut too, which is the counts of all tests.
    elsewhere = {"GCOV_PREFIX": FOLDER, "GCOV_ERROR_FILE": "/dev/null"}
    run = Run("init", "-o", "cut.json", environment=elsewhere, preexec_fn=small)
    same((run.status, run.stderr), (FAILED, "weirctl: cut.json: File too large\n"))
    same(os.path.exists("cut.json"), False)


# ---- what comes with it

def complete(*words):
    """What bash would offer for the last word."""
    script = 'PATH=%s:$PATH; . "%s"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weirctl; printf "%%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script % (os.path.dirname(PROGRAM), COMPLETION), "bash", "weirctl", *words],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
    same(done.stderr, b"", words)
    return sorted(word for word in done.stdout.decode().splitlines() if word)


@functools.lru_cache(maxsize=None)
def verbs():
    return re.findall(r"^  ([a-z]+) ", Run("--help").stdout, re.MULTILINE)


@functools.lru_cache(maxsize=None)
def options(verb):
    return re.findall(r"^ +(?:-., )?(--[a-z-]+)", Run(verb, "--help").stdout, re.MULTILINE)


def bash_completes_verbs_options_values_and_files():
    write("policy-1.json", "{}")
    same(complete(""), sorted(verbs() + ["--help", "--version"]))
    same(complete("ch"), ["check"])
    for verb in verbs():
        same(complete(verb, "--"), sorted(options(verb)), verb)
    same(complete("check", "--len"), ["--lenient"])
    same(complete("check", "--color", "a"), ["always", "auto"])
    same(complete("check", "--color", "=", "n"), ["never"])
    same(complete("check", "--color", "="), ["always", "auto", "never"])
    same(complete("explain", "--code", "UN"), ["UNAUTHENTICATED", "UNAVAILABLE", "UNIMPLEMENTED", "UNKNOWN"])
    same(complete("explain", "--origin", "TR"), ["TRANSPORT_CONNECT", "TRANSPORT_RESET"])
    same(complete("explain", "--bound", "P"), ["PARENT", "POLICY"])
    same(complete("check", "policy-"), ["policy-1.json"])
    same(complete("init", "-o", "policy-"), ["policy-1.json"])
    same(complete("init", "--service", "policy-"), [])


def the_manual_tells_of_every_verb_and_option():
    manual = read(MAN_PAGE)
    for verb in verbs():
        has(manual, ".Ss weirctl %s\n" % verb)
        for option in options(verb):
            has(manual, "Fl %s" % option[1:], verb)


def shown(document):
    """The document's files, and its commands with what they print."""
    files = re.findall(r"^`(\S+)`:\n\n(?:<!-- .* -->\n)?```json\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"^```console\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.MULTILINE)
    return files, commands


def run_shown(command):
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          env={**os.environ, "PATH": os.path.dirname(PROGRAM) + ":" + os.environ["PATH"]})
    return done.stdout.decode()


def the_document_shows_what_is_printed():
    files, commands = shown(read(DOCUMENT))
    os.mkdir("shown")
    os.chdir("shown")
    for name, text in files:
        assert not os.path.exists(name), name
        write(name, text)
    for command, expected in commands:
        same(run_shown(command), expected, command)
    os.chdir(FOLDER)
    assert files and commands


def the_document_tells_of_every_warning():
    document = read(DOCUMENT)
    ids = {warning[0] for _, expected in WARNINGS for warning in expected}
    ids |= {"attempts-clamped", "enforces-nothing", "entry-without-name", "hedging-ignored", "invalid", "name-wildcard",
            "unknown-key", "weaker", "ceiling"}
    for name in sorted(ids):
        has(document, "`%s`" % name)


TESTS = [
    tells_the_verdict_of_every_kind_of_document,
    tells_the_same_verdict_in_json,
    tells_all_problems_of_a_document,
    lenient_makes_unknown_keys_warnings_and_nothing_else,
    what_enforces_nothing_is_warned_of_as_that,
    counts_what_it_does_not_keep,
    names_both_places_of_what_is_weaker,
    accepts_what_is_as_strict_and_tells_the_worst_case_of_both,
    warns_of_what_is_above_a_ceiling,
    warnings_of_an_entry_name_it_under_an_organisation_too,
    the_organisations_own_problems_come_first_and_once,
    documents_are_told_of_by_themselves_where_the_organisations_is_bad,
    the_organisations_document_is_that_of_the_environment,
    what_init_prints_holds_under_what_it_prints_for_an_organisation,
    the_worst_of_several_files_counts,
    a_folder_is_no_document,
    an_endless_file_ends,
    reads_standard_input_once,
    many_files_leave_no_descriptor_open,
    a_policy_of_many_methods_is_told_whole,
    wrong_usage_is_told_on_standard_error,
    options_may_stand_anywhere_before_two_dashes,
    help_and_version_are_told_on_standard_output,
    quiet_leaves_the_problems,
    werror_refuses_what_is_warned_of,
    what_can_not_be_written_is_a_failure,
    whoever_closed_the_pipe_is_not_told,
    a_closed_stream_is_never_taken_for_a_file,
    colors_are_for_terminals_that_want_them,
    foreign_text_moves_no_cursor,
    keys_keep_their_order,
    warns_of_what_is_seldom_meant_and_of_nothing_else,
    a_warning_names_the_methods,
    tells_the_worst_case_of_each_name,
    what_init_prints_has_no_problem,
    init_writes_new_files_only,
    a_file_that_can_not_be_written_whole_is_taken_away,
    bash_completes_verbs_options_values_and_files,
    the_manual_tells_of_every_verb_and_option,
    the_document_shows_what_is_printed,
    the_document_tells_of_every_warning,
]


FEW = [
    tells_the_verdict_of_every_kind_of_document,
    tells_the_same_verdict_in_json,
    counts_what_it_does_not_keep,
    names_both_places_of_what_is_weaker,
    warnings_of_an_entry_name_it_under_an_organisation_too,
    a_folder_is_no_document,
    foreign_text_moves_no_cursor,
    warns_of_what_is_seldom_meant_and_of_nothing_else,
    what_init_prints_has_no_problem,
]


def main():
    tests = FEW if sys.argv[5:] == ["few"] else TESTS
    failed = []
    for test in tests:
        try:
            test()
            print("[       OK ] %s" % test.__name__)
        except AssertionError as error:
            failed.append(test.__name__)
            print("[  FAILED  ] %s: %s" % (test.__name__, error))
    print("[  PASSED  ] %d test(s)." % (len(tests) - len(failed)))
    if failed:
        print("[  FAILED  ] %d test(s), listed below:\n%s" % (len(failed), "\n".join(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
