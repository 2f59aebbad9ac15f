#!/usr/bin/env python3
"""weirctl explain and weirctl diff as their users run them: explain_cli_test.py PROGRAM

What holds, value by value, is effective_test's, and what the layers do simulate_test's; here is what is printed, on
which stream, and what weirctl exits with. Each test is a claim.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
FOLDER = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
os.chdir(FOLDER)

ACCEPTED, REFUSED, FAILED = 0, 1, 2
RETRIES = ('"retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,'
           ' "retryableStatusCodes": ["UNAVAILABLE"]}')
SHOP = """{
  "name": "checkout",
  "methodConfig": [
    {"name": [{}], "timeout": "90s"},
    {"name": [{"service": "shop.Cart"}],
     "timeout": "2s", %s},
    {"name": [{"service": "shop.Cart", "method": "Pay"}],
     "timeout": "1s"}
  ],
  "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1}
}
""" % RETRIES


class Run:
    """One run of weirctl: what came of it."""

    def __init__(self, *words, stdin=b"", environment=None):
        variables = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "WEIR_ORG_POLICY")}
        variables.update(environment or {})
        done = subprocess.run([PROGRAM, *words], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=variables, check=False, timeout=300)
        self.status = done.returncode
        self.stdout = done.stdout.decode()
        self.stderr = done.stderr.decode()
        for word in ("Sanitizer", "runtime error", "Assertion"):
            assert word not in self.stderr, self.stderr

    def json(self):
        return json.loads(self.stdout)

    def lines(self):
        """Of the text, by their first word, with single blanks."""
        words = [line.split() for line in self.stdout.splitlines()]
        return {line[0]: " ".join(line) for line in words if line}


def write(name, text):
    with open(name, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    return name


def same(got, expected, why=""):
    assert got == expected, "%s: got %r, expected %r" % (why, got, expected)


def has(text, part, why=""):
    assert part in text, "%s: no %r in:\n%s" % (why, part, text)


# ---- explain: what holds

def a_method_is_told_with_the_places_of_its_values():
    lines = Run("explain", write("shop.json", SHOP), "shop.Cart/Get").lines()
    same(lines["/shop.Cart/Get"], "/shop.Cart/Get")
    same(lines["entry"], "entry the service's, shop.json:5:15")
    same(lines["passed"], "passed over the one for everything, {}, shop.json:4:15; an entry is used whole")
    same(lines["retries"], "retries up to 3 attempts")
    same(lines["timeout"], "timeout 2s shop.json:6:17")
    same(lines["retryPolicy.maxAttempts"], "retryPolicy.maxAttempts 3 shop.json:6:54")
    same(lines["retryThrottling.maxTokens"], "retryThrottling.maxTokens 100 shop.json:10:36")
    same(lines["breaker.failureRatio"], "breaker.failureRatio 0.6 built in")
    same(lines["name"], "name checkout shop.json:2:11")
    run = Run("explain", "shop.json", "x.Y/Z")
    same(run.lines()["timeout"], "timeout 90s shop.json:4:31 unary calls: cut to 60s")
    has(run.stdout, "a unary call  takes at most 60s")
    has(run.stdout, "a stream      takes at most 90s")


def a_document_that_says_nothing_is_told_to_have_neither_retries_nor_throttling():
    run = Run("explain", write("empty.json", "{}"), "/a.B/C")
    same(run.status, ACCEPTED)
    lines = run.lines()
    same(lines["entry"], "entry none, so the built-in defaults hold")
    same(lines["retries"], "retries no retries")
    same(lines["retryPolicy"], "retryPolicy no retries built in")
    same(lines["retryThrottling"], "retryThrottling no throttling built in")


def a_misspelt_document_shows_what_it_does_not_do():
    document = '{"retryThrottle": {"maxTokens": 10}, "methodConfig": [{"name": [{}], "RetryPolicy": {}}]}'
    run = Run("explain", write("misspelt.json", document), "a.B/C")
    same(run.status, REFUSED)
    has(run.stdout, "retryThrottling")
    run = Run("explain", "--lenient", "misspelt.json", "a.B/C")
    same(run.status, ACCEPTED)
    has(run.stdout, "warning: retryThrottle: ")
    has(run.stdout, "retries       no retries")
    has(run.stdout, "no throttling")


def a_method_may_be_written_with_a_slash_or_without():
    write("shop.json", SHOP)
    same(Run("explain", "shop.json", "/shop.Cart/Pay").stdout, Run("explain", "shop.json", "shop.Cart/Pay").stdout)
    for word, hint in [("shop.Cart.Pay", "write 'shop.Cart/Pay'"), ("shop.Cart", "write 'shop/Cart'"),
                       ("Pay", "write 'package.Service/Method'"), ("", "write 'package"), ("/", "write 'package"),
                       ("a.B/", "write 'package"), ("//c", "write 'package"), ("a/b/c", "write 'package")]:
        run = Run("explain", "shop.json", word)
        same((run.status, run.stdout), (FAILED, ""), word)
        has(run.stderr, hint, word)


def the_json_of_explain_has_its_keys():
    write("shop.json", SHOP)
    told = Run("explain", "--json", "shop.json", "shop.Cart/Pay", "--code", "14").json()
    same(list(told), ["verdict", "problems", "method", "entry", "passed_over", "unary_limit", "stream_limit", "outcome",
                      "values"])
    same(told["method"], "/shop.Cart/Pay")
    same(told["entry"], {"kind": "METHOD",
                         "origin": {"kind": "CHANNEL", "file": "shop.json", "line": 7, "column": 15}})
    same([entry["kind"] for entry in told["passed_over"]], ["SERVICE", "DEFAULT"])
    same(told["unary_limit"], {"most": "1s", "without": "1s"})
    values = {value["path"]: value for value in told["values"]}
    same(values["timeout"], {"path": "timeout", "value": "1s",
                             "origin": {"kind": "CHANNEL", "file": "shop.json", "line": 8, "column": 17}})
    same(values["retryPolicy"]["value"], None)
    same(values["breaker.probes"]["value"], 3)
    same(values["breaker.probes"]["origin"], {"kind": "BUILT_IN", "file": None, "line": None, "column": None})
    outcome = told["outcome"]
    same(list(outcome), ["code", "origin", "shape", "caller", "attempt", "blames", "sent_to_peer", "retry", "breaker",
                         "translation", "deadline"])
    same(outcome["retry"], {"asked": True, "next": "END", "reason": "NO_RETRY_POLICY", "max_attempts": 1,
                            "least_wait": None, "most_wait": None, "throttled": True, "tokens": 0.0})
    same(outcome["breaker"], {"enabled": True, "asked": True, "refuses": False, "verdict": "FAILURE", "opens": False})
    same(outcome["translation"]["code"], "UNAVAILABLE")
    same(outcome["deadline"], {"refuses": False, "bound": "NONE", "limit": "1s", "another_fits": None})


def a_refused_document_is_no_policy_to_explain():
    write("bad.json", '{"deadline": {"maxTimeout": "1m"},\n "x": 1}')
    run = Run("explain", "bad.json", "a.B/C")
    same(run.status, REFUSED)
    has(run.stdout, 'write "60s"')
    told = Run("explain", "bad.json", "a.B/C", "--json").json()
    same(told["verdict"], "refused")
    same([problem["path"] for problem in told["problems"]], ["deadline.maxTimeout", "x"])
    run = Run("explain", "nowhere.json", "a.B/C")
    same((run.status, run.stdout), (FAILED, ""))
    same(Run("explain", "-", "a.B/C", stdin=b"{}").status, ACCEPTED)


# ---- an organisation's document

ORGANISATION = """{
  "deadline": {"maxTimeout": "20s", "defaultTimeout": "5s"},
  "methodConfig": [{"name": [{"service": "org.Own"}], "timeout": "4s"}],
  "enforce": {
    "translation": {"codes": {"NOT_FOUND": "INTERNAL"}},
    "methodConfig": [
      {"name": [{"service": "shop.Cart", "method": "Buy"}], "retryPolicy": {"maxAttempts": 1}}
    ]
  }
}
"""
CHANNEL = """{
  "deadline": {"maxTimeout": "30s"},
  "methodConfig": [{"name": [{}], "timeout": "6s",
                    %s}]
}
""" % RETRIES


def what_can_not_be_read_is_a_document_of_json_too():
    for words in [("nowhere.json", "a.B/C"), (write("good.json", "{}"), "a.B/C", "--org", "nowhere.json")]:
        run = Run("explain", "--json", *words)
        same(run.status, FAILED)
        same(run.json(), {"verdict": "unreadable", "problems": []})
        has(run.stderr, "nowhere.json: No such file")


def what_the_organisation_says_is_told_with_its_file():
    write("org.json", ORGANISATION)
    write("channel.json", CHANNEL)
    lines = Run("explain", "channel.json", "shop.Cart/Buy", "--org", "org.json").lines()
    same(lines["entry"], "entry the method's, org org.json:7:17 (enforced)")
    same(lines["passed"], "passed over the one for everything, {}, channel.json:3:30; an entry is used whole")
    same(lines["retries"], "retries no retries")
    same(lines["retryPolicy"], "retryPolicy no retries org org.json:7:92 (enforced)")
    same(lines["timeout"], "timeout 6s channel.json:3:46")
    same(lines["deadline.maxTimeout"], "deadline.maxTimeout 20s (said: 30s) org org.json:2:30 (ceiling)")
    same(lines["deadline.defaultTimeout"], "deadline.defaultTimeout 5s org org.json:2:55 (default)")
    same(lines["translation.codes.NOT_FOUND"], "translation.codes.NOT_FOUND INTERNAL org org.json:5:44 (enforced)")
    same(Run("explain", "channel.json", "a.B/C", "--org", "org.json").lines()["retries"], "retries up to 3 attempts")
    own = Run("explain", "channel.json", "org.Own/X", "--org=org.json").lines()
    same(own["timeout"], "timeout 4s org org.json:3:66 (default)")
    told = Run("explain", "--json", "channel.json", "shop.Cart/Buy", "--org", "org.json").json()
    same({value["path"]: value["origin"] for value in told["values"]}["retryPolicy"],
         {"kind": "ENFORCED", "file": "org.json", "line": 7, "column": 92})


def what_is_enforced_shows_where_a_value_is_strict_enough_by_itself():
    write("enforced.json", """{"enforce": {
  "breaker": {"enabled": true},
  "translation": {"boundary": true, "codes": {"ABORTED": "INTERNAL"}, "keepMetadata": ["a-b"]},
  "methodConfig": [{"name": [{}], "timeout": "9s"},
                   {"name": [{"service": "a.B"}], "timeout": "3s",
                    "retryPolicy": {"maxAttempts": 4}},
                   {"name": [{"service": "a.B", "method": "C"}], "timeout": "5s"}]
}}""")
    write("same.json", """{"breaker": {"enabled": true},
 "translation": {"keepMetadata": ["a-b"]},
 "methodConfig": [{"name": [{"service": "a.B"}], "timeout": "2s", %s}]}""" % RETRIES)
    lines = Run("explain", "same.json", "a.B/C", "--org", "enforced.json").lines()
    for path, expected in [
            ("timeout", "2s same.json:3:61; at most 3s: org enforced.json:5:62 (enforced)"),
            ("retryPolicy.maxAttempts", "3 same.json:3:98; at most 4: org enforced.json:6:52 (enforced)"),
            ("translation.boundary", "true built in; true: org enforced.json:3:31 (enforced)"),
            ("translation.codes.ABORTED", "INTERNAL org enforced.json:3:58 (enforced)"),
            ("translation.keepMetadata", "a-b same.json:2:34; no other than a-b: org enforced.json:3:87 (enforced)"),
            ("breaker.enabled", "true same.json:1:25; true: org enforced.json:2:26 (enforced)")]:
        same(lines[path], path + " " + expected)
    told = Run("explain", "--json", "same.json", "a.B/C", "--org", "enforced.json").json()
    values = {value["path"]: value for value in told["values"]}
    same(values["timeout"]["enforced"], {"value": "3s", "origin": {
        "kind": "ENFORCED", "file": "enforced.json", "line": 5, "column": 62}})
    assert "enforced" not in values["breaker.window"]
    other = Run("explain", "same.json", "other.B/C", "--org", "enforced.json").lines()
    same(other["timeout"], "timeout 9s org enforced.json:4:46 (enforced)")


def the_organisations_document_may_be_in_the_environment():
    write("org.json", ORGANISATION)
    write("channel.json", CHANNEL)
    given = Run("explain", "channel.json", "shop.Cart/Buy", "--org", "org.json").stdout
    same(Run("explain", "channel.json", "shop.Cart/Buy", environment={"WEIR_ORG_POLICY": "org.json"}).stdout, given)
    assert Run("explain", "channel.json", "shop.Cart/Buy", "--org", "",
               environment={"WEIR_ORG_POLICY": "org.json"}).stdout != given
    lines = Run("explain", "org.json", "shop.Cart/Buy").lines()
    same(lines["retryPolicy"], "retryPolicy no retries org.json:7:92 (enforced)", "a document used alone")


def what_is_weaker_is_refused_with_both_places():
    write("org.json", ORGANISATION)
    write("weak.json", '{"translation": {"boundary": false}}')
    for words in [("explain", "weak.json", "a.B/C"), ("diff", "weak.json", "weak.json")]:
        run = Run(*words, "--org", "org.json")
        same(run.status, REFUSED, words)
        has(run.stdout, "weak.json:1:30: error: translation.boundary", words)
        has(run.stdout, "org.json:5:", words)
    write("broken.json", '{"enforce": 1}')
    run = Run("explain", "weak.json", "a.B/C", "--org", "broken.json")
    same(run.status, REFUSED)
    has(run.stdout, "broken.json:1:13: error: enforce: ")
    same(Run("explain", "weak.json", "a.B/C", "--org", "nowhere.json").status, FAILED)


def a_diff_tells_what_an_organisation_changes():
    write("org.json", ORGANISATION)
    write("channel.json", CHANNEL)
    same(Run("diff", "channel.json", "channel.json", "--org", "org.json").stdout, "no effective change\n")
    run = Run("diff", "channel.json", "channel.json", "--org-new", "org.json")
    lines = [" ".join(line.split()) for line in run.stdout.splitlines()]
    has(run.stdout, "/shop.Cart/Buy: its own entry, no longer the entry for everything\n")
    assert ("retryPolicy.maxAttempts 3 -> no retries (channel.json:4:52 -> org org.json:7:92 (enforced))"
            in lines), run.stdout
    assert "deadline.maxTimeout 30s -> 20s (channel.json:2:30 -> org org.json:2:30 (ceiling))" in lines, run.stdout


# ---- explain: what the layers do

def each_layer_has_a_line_in_their_order():
    write("shop.json", SHOP)
    run = Run("explain", "shop.json", "shop.Cart/Get", "--code", "unavailable", "--origin", "peer", "--attempt", "2")
    lines = [line for line in run.stdout.splitlines()
             if line.split(" ")[0] in ("supposed", "retry", "breaker", "translation", "deadline")]
    same([line.split(" ")[0] for line in lines], ["supposed", "retry", "breaker", "translation", "deadline"])
    has(lines[0], "UNAVAILABLE from PEER, attempt 2 of a unary call")
    has(lines[1], "retried after 0.16s to 0.2")
    has(lines[1], ", as attempt 3 of 3; 1 of 100 tokens taken")
    has(lines[2], "if no attempt followed: counted as FAILURE")
    has(lines[3], 'the caller sees UNAVAILABLE, "downstream service: UNAVAILABLE [ref 0123456789ab]"')
    has(lines[4], "another attempt fits")


# options, and what is printed
OUTCOMES = [
    (["--code", "3"], ["not retried: NOT_RETRYABLE", "counted as SUCCESS", "the caller sees INTERNAL"]),
    (["--code", "Not_Found", "--origin", "0"], ["not retried: NOT_RETRYABLE", "the caller sees NOT_FOUND"]),
    (["--code", "14", "--origin", "local-breaker"],
     ["not asked: the call ends before it (BREAKER_OPEN)", "refuses the call", "do_not_retry"]),
    (["--code", "4", "--origin", "LOCAL_DEADLINE", "--inbound", "--bound", "call"],
     ["while a request is served", "DEADLINE", "counted as FAILURE", "sees UNAVAILABLE", "do_not_retry"]),
    (["--code", "4", "--origin", "LOCAL_DEADLINE", "--attempt", "0"],
     ["before the first attempt", "refuses the call: its time was up before it began (CALL)"]),
    (["--code", "14", "--pushback", "-1"], ["not retried: PUSHBACK", "1 of 100 tokens taken", "do_not_retry"]),
    (["--code", "14", "--pushback=250"], ["retried after 0.25s, as attempt 2 of 3"]),
    (["--code", "14", "--retried"], ["not retried: NOT_OWNER", "that an outer layer retries"]),
    (["--code", "14", "--headers"], ["not retried: COMMITTED"]),
    (["--code", "14", "--stream"], ["of a stream", "retried after"]),
    (["--code", "14", "--origin", "transport_reset", "--unprocessed"], ["sent again at once"]),
    (["--code", "OK"], ["not retried: the call succeeded", "0.1 of 100 tokens given back", "the caller sees OK"]),
]

# options, and why they can't be
IMPOSSIBLE = [
    (["--code", "OK", "--origin", "LOCAL_CANCEL"], "OK from LOCAL_CANCEL can't be: nothing ends with"),
    (["--code", "14", "--origin", "LOCAL_LIMIT"], "UNAVAILABLE from LOCAL_LIMIT can't be"),
    (["--code", "14", "--attempt", "4"], "no attempt 4: ATTEMPTS_EXHAUSTED"),
    (["--code", "4", "--origin", "LOCAL_DEADLINE", "--bound", "PARENT"], "--inbound"),
    (["--code", "4", "--origin", "LOCAL_DEADLINE", "--bound", "ATTEMPT"], "no perAttemptTimeout"),
    (["--code", "14", "--origin", "TRANSPORT_RESET", "--pushback", "1"], "only a peer"),
    (["--code", "17"], "--code: '17' is no status code"),
    (["--code", "UNAVAILABEL"], "is no status code"),
    (["--code", ""], "is no status code"),
    (["--code", "14", "--origin", "NETWORK"], "--origin: 'NETWORK' is none"),
    (["--code", "4", "--bound", "NONE"], "--bound: 'NONE' is none"),
    (["--code", "14", "--attempt", "x"], "--attempt: 'x' is none"),
    (["--code", "14", "--stream", "--one-batch"], "can't both be"),
    (["--origin", "PEER"], "--origin needs --code"),
    (["--stream"], "--stream needs --code"),
]


def an_outcome_is_told_for_what_is_supposed():
    write("shop.json", SHOP)
    for words, parts in OUTCOMES:
        run = Run("explain", "shop.json", "shop.Cart/Get", *words)
        same((run.status, run.stderr), (ACCEPTED, ""), words)
        for part in parts:
            has(run.stdout, part, words)


def what_cannot_be_is_refused_with_a_reason():
    write("shop.json", SHOP)
    for words, part in IMPOSSIBLE:
        run = Run("explain", "shop.json", "shop.Cart/Get", *words)
        same((run.status, run.stdout), (FAILED, ""), words)
        has(run.stderr, part, words)


# ---- diff

def what_means_the_same_is_no_change():
    write("old.json", SHOP)
    document = json.loads(SHOP)
    document["methodConfig"].reverse()
    document["methodConfig"][1]["retryPolicy"].update({"maxAttempts": 3.0, "retryableStatusCodes": [14, "unavailable"]})
    document.update({"breaker": {"probes": "3"}, "deadline": None})
    write("new.json", json.dumps(document))
    run = Run("diff", "old.json", "new.json")
    same((run.status, run.stdout, run.stderr), (ACCEPTED, "no effective change\n", ""))
    told = Run("diff", "--json", "old.json", "new.json").json()
    same(list(told), ["old", "new", "changed", "channel", "methods", "resets", "throttle_begins_full"])
    same((told["changed"], told["channel"], told["methods"], told["resets"]), (False, [], [], "NONE"))


def changes_are_told_with_both_places():
    write("old.json", SHOP)
    document = json.loads(SHOP)
    document["breaker"] = {"window": "30s"}
    document["methodConfig"][0]["timeout"] = "5s"
    del document["methodConfig"][2]
    write("new.json", json.dumps(document))
    run = Run("diff", "old.json", "new.json")
    same(run.status, ACCEPTED)
    lines = [" ".join(line.split()) for line in run.stdout.splitlines()]
    same(lines[0], "channel-wide")
    same(lines[1], "breaker.window 60s -> 30s (built in -> new.json:1:354)")
    same(lines[2], "all other methods")
    has(lines[3], "timeout 90s -> 5s (old.json:4:31 -> new.json:1:")
    same(lines[4], "/shop.Cart/Pay: its service's entry, no longer its own entry")
    has(lines[5], "timeout 1s -> 2s (old.json:8:17 -> new.json:1:")
    has(lines[6], "retryPolicy.maxAttempts no retries -> 3 (built in -> ")
    same(lines[-1], "a reload empties the breakers' windows; their states stay")
    told = Run("diff", "--json", "old.json", "new.json").json()
    same([method["name"] for method in told["methods"]], ["*", "/shop.Cart/Pay"])
    pay = told["methods"][1]
    same((pay["kind"], pay["old_entry"], pay["new_entry"]), ("METHOD", "METHOD", "SERVICE"))
    same(pay["changes"][0]["path"], "timeout")
    same((pay["changes"][0]["old"]["value"], pay["changes"][0]["new"]["value"]), ("1s", "2s"))
    same(pay["changes"][0]["old"]["origin"], {"kind": "CHANNEL", "file": "old.json", "line": 8, "column": 17})
    same(told["resets"], "WINDOWS")


# why, the one document, the other, what is reset
RESETS = [
    ("a window", '{"breaker": {"window": "30s"}}', "WINDOWS"),
    ("buckets", '{"breaker": {"windowBuckets": 5}}', "WINDOWS"),
    ("a scope", '{"breaker": {"scope": "METHOD"}}', "BREAKERS"),
    ("off", '{"breaker": {"enabled": false}}', "BREAKERS"),
    ("a ratio", '{"breaker": {"failureRatio": 0.5}}', "NONE"),
]


def what_a_reload_resets_is_told():
    write("old.json", "{}")
    for why, document, resets in RESETS:
        write("new.json", document)
        same(Run("diff", "--json", "old.json", "new.json").json()["resets"], resets, why)
        same(Run("diff", "--json", "new.json", "old.json").json()["resets"], resets, why)
    write("new.json", '{"retryThrottling": {"maxTokens": 10, "tokenRatio": 1}}')
    same(Run("diff", "--json", "old.json", "new.json").json()["throttle_begins_full"], True)
    same(Run("diff", "--json", "new.json", "old.json").json()["throttle_begins_full"], False)


def one_refused_document_is_enough():
    write("good.json", "{}")
    write("bad.json", '{"x": 1}')
    for words in [("good.json", "bad.json"), ("bad.json", "good.json")]:
        run = Run("diff", *words)
        same(run.status, REFUSED)
        has(run.stdout, "bad.json:1:2: error: x: unknown key")
        told = Run("diff", "--json", *words).json()
        same((told["old"]["verdict"], told["new"]["verdict"]),
             tuple("refused" if word == "bad.json" else "accepted" for word in words))
    same(Run("diff", "--lenient", "good.json", "bad.json").stdout, "no effective change\n")
    run = Run("diff", "good.json", "nowhere.json")
    same((run.status, run.stdout), (FAILED, ""))
    has(run.stderr, "nowhere.json: No such file")
    run = Run("diff", "bad.json", "nowhere.json")
    same(run.status, FAILED)
    has(run.stdout, "bad.json:1:2: error: x: unknown key", "what could be read is told of")
    told = Run("diff", "--json", "bad.json", "nowhere.json").json()
    same((told["old"]["verdict"], told["new"]["verdict"]), ("refused", "unreadable"))
    same(Run("diff", "good.json").status, FAILED)
    same(Run("diff", "-", "-").status, FAILED)
    same(Run("diff", "-", "good.json", stdin=b"{}").stdout, "no effective change\n")


def foreign_names_move_no_cursor():
    entry = '{"methodConfig": [{"name": [{"service": "a\\u001b[2J.B", "method": "C"}], "timeout": "%s"}]}'
    write("old.json", entry % "1s")
    write("new.json", entry % "2s")
    run = Run("diff", "old.json", "new.json")
    assert "\033" not in run.stdout, run.stdout


def thousands_of_methods_are_compared():
    def policy(timeout, **more):
        return json.dumps({"methodConfig": [
            {"name": [{"service": "pkg.S%d" % (i // 20), "method": "M%d" % i}], "timeout": timeout,
             "hedgingPolicy": {"maxAttempts": 2},  # passed on: it is looked for in the text
             "translation": {"codes": {"NOT_FOUND": "INTERNAL"}}} for i in range(3000)], **more})
    write("old.json", policy("1s"))
    write("new.json", policy("2s", translation={"messageRef": False}))
    same(Run("diff", "old.json", "old.json").stdout, "no effective change\n")
    told = Run("diff", "--json", "old.json", "new.json").json()
    same(len(told["methods"]), 3000)
    same({tuple(change["path"] for change in method["changes"]) for method in told["methods"]}, {("timeout",)})
    same([change["path"] for change in told["channel"]], ["translation.messageRef"])


TESTS = [
    a_method_is_told_with_the_places_of_its_values,
    a_document_that_says_nothing_is_told_to_have_neither_retries_nor_throttling,
    a_misspelt_document_shows_what_it_does_not_do,
    a_method_may_be_written_with_a_slash_or_without,
    the_json_of_explain_has_its_keys,
    a_refused_document_is_no_policy_to_explain,
    what_can_not_be_read_is_a_document_of_json_too,
    what_the_organisation_says_is_told_with_its_file,
    what_is_enforced_shows_where_a_value_is_strict_enough_by_itself,
    the_organisations_document_may_be_in_the_environment,
    what_is_weaker_is_refused_with_both_places,
    a_diff_tells_what_an_organisation_changes,
    each_layer_has_a_line_in_their_order,
    an_outcome_is_told_for_what_is_supposed,
    what_cannot_be_is_refused_with_a_reason,
    what_means_the_same_is_no_change,
    changes_are_told_with_both_places,
    what_a_reload_resets_is_told,
    one_refused_document_is_enough,
    foreign_names_move_no_cursor,
    thousands_of_methods_are_compared,
]


def main():
    failed = []
    for test in TESTS:
        try:
            test()
            print("[       OK ] %s" % test.__name__)
        except AssertionError as error:
            failed.append(test.__name__)
            print("[  FAILED  ] %s: %s" % (test.__name__, error))
    print("[  PASSED  ] %d test(s)." % (len(TESTS) - len(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
