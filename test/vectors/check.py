#!/usr/bin/env python3
"""A6 in a few lines, and the vectors against it: test/vectors/check.py [FOLDER]

A model of gRFC A6 (text of August 2024) that shares nothing with weir: it was written from the document, so what the vectors
expect is not merely what weir does. See README.md for the format. Exits with 1 if a vector does not hold.

SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib
import re
import sys
from decimal import Decimal
from fractions import Fraction

CODES = ["OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
         "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
         "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"]
UNKNOWN = CODES.index("UNKNOWN")
MOST_ATTEMPTS = 5
MS = 10 ** 6
SECOND = 10 ** 9
LONGEST_DURATION = 315576000000 * SECOND


class Invalid(Exception):
    """A policy that A6's validation refuses."""


# ---- policies: Validation of retryPolicy, Validation of retryThrottling

def require(holds, what):
    if not holds:
        raise Invalid(what)


def is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value):
    return is_integer(value) or isinstance(value, Decimal)


def duration_ns(text):
    match = isinstance(text, str) and re.fullmatch(r"(-?(?:0|[1-9]\d*)(?:\.\d{1,9})?)s", text, re.ASCII)
    require(match, "a proto3 duration: %r" % (text,))
    ns = int(Decimal(match.group(1)) * SECOND)
    require(0 < ns <= LONGEST_DURATION, "a duration greater than 0")
    return ns


def code_of(value):
    if isinstance(value, str):
        require(value.upper() in CODES, "the name of a code: %r" % value)
        return CODES.index(value.upper())
    require(is_integer(value) and 0 <= value < len(CODES), "a code: %r" % (value,))
    return value


def read_retry_policy(policy):
    attempts = policy.get("maxAttempts")
    multiplier = policy.get("backoffMultiplier")
    codes = policy.get("retryableStatusCodes")
    require(is_integer(attempts) and attempts > 1, "maxAttempts: an integer > 1")
    require(is_number(multiplier) and multiplier > 0, "backoffMultiplier: a number > 0")
    require(isinstance(codes, list) and codes, "retryableStatusCodes: a list with something in it")
    return {"maxAttempts": min(attempts, MOST_ATTEMPTS), "initialBackoffNs": duration_ns(policy.get("initialBackoff")),
            "maxBackoffNs": duration_ns(policy.get("maxBackoff")), "backoffMultiplier": multiplier,
            "retryableStatusCodes": sorted({code_of(code) for code in codes})}


def read_throttling(policy):
    tokens = policy.get("maxTokens")
    ratio = policy.get("tokenRatio")
    require(is_integer(tokens) and 0 < tokens <= 1000, "maxTokens: an integer in (0, 1000]")
    require(is_number(ratio), "tokenRatio: a number")
    milli = int(ratio * 1000)  # "decimal places beyond 3 are ignored"
    require(milli > 0, "tokenRatio: greater than 0")
    return {"maxTokensMilli": tokens * 1000, "tokenRatioMilli": milli}


class Policy:
    def __init__(self, config):
        self.methods = {}
        for entry in config.get("methodConfig", []):
            retry = read_retry_policy(entry["retryPolicy"]) if "retryPolicy" in entry else None
            for name in entry["name"]:
                self.methods[(name.get("service", ""), name.get("method", ""))] = retry
        throttling = config.get("retryThrottling")
        self.throttling = read_throttling(throttling) if throttling is not None else None

    def retry_of(self, path):
        service, method = path[1:].rsplit("/", 1)
        for name in ((service, method), (service, ""), ("", "")):
            if name in self.methods:
                return self.methods[name]
        return None


# ---- throttling: token_count of a server name, in thousandths

class Bucket:
    def __init__(self, throttling):
        self.count = Fraction(throttling["maxTokensMilli"])
        self.throttling = throttling

    def change(self, throttling):
        self.count = self.count * throttling["maxTokensMilli"] / self.throttling["maxTokensMilli"]
        self.throttling = throttling

    def success(self):
        self.count = min(self.count + self.throttling["tokenRatioMilli"], Fraction(self.throttling["maxTokensMilli"]))

    def failure(self):
        self.count = max(self.count - 1000, Fraction(0))

    def allows(self):
        return self.count > Fraction(self.throttling["maxTokensMilli"], 2)


class Channel:
    def __init__(self, world, server, policy):
        self.policy = Policy(policy)
        self.server = server
        self.bucket = None
        if self.policy.throttling:
            self.bucket = world.buckets.setdefault(server, Bucket(self.policy.throttling))
            self.bucket.change(self.policy.throttling)


# ---- calls

def pushback_of(raw):
    """None: the server did not say; -1: do not retry; else milliseconds."""
    if raw is None:
        return None
    if not re.fullmatch(r"-?(0|[1-9]\d*)", raw, re.ASCII) or not -2 ** 31 <= int(raw) < 2 ** 31:
        return -1
    return max(int(raw), -1)


class Call:
    def __init__(self, channel, given):
        self.bucket = channel.bucket
        self.retry = channel.policy.retry_of(given["method"])
        self.deadline = given["deadlineMs"] * MS if "deadlineMs" in given else None
        self.attempts = 0      # those that count
        self.backoffs = 0      # since the last delay that the server set
        self.seen_replay = False

    def backoff(self, jitter):
        self.backoffs += 1
        delay = Fraction(self.retry["initialBackoffNs"])
        if self.backoffs > 1:
            delay = min(delay * Fraction(self.retry["backoffMultiplier"]) ** (self.backoffs - 1), self.retry["maxBackoffNs"])
        return delay * (Fraction(8, 10) + Fraction(4, 10) * Fraction(jitter))

    def charge(self):
        if self.bucket:
            self.bucket.failure()

    def decide(self, attempt, not_sent_replays):
        """Answers (decision, reason, delay)."""
        code = code_of(attempt["status"]) if isinstance(attempt["status"], str) else attempt["status"]
        code = code if 0 <= code < len(CODES) else UNKNOWN
        pushback = pushback_of(attempt.get("pushback"))
        if attempt.get("endedBy"):
            return "stop", {"client-deadline": "client-deadline", "client-cancel": "client-cancelled"}[attempt["endedBy"]], None
        if code == 0:
            if self.bucket:
                self.bucket.success()
            return "stop", "success", None
        unprocessed = attempt.get("unprocessed")
        if unprocessed and (unprocessed == "not-sent" and not_sent_replays is None or not self.seen_replay):
            self.seen_replay = self.seen_replay or unprocessed == "not-seen" or not_sent_replays is not None
            return "retry", "transparent", Fraction(0)
        listed = self.retry is not None and code in self.retry["retryableStatusCodes"]
        if listed or pushback == -1:
            self.charge()
        if not listed:
            return "stop", "not-retryable" if self.retry else "no-policy", None
        if self.bucket and not self.bucket.allows():
            return "stop", "throttled", None
        committed = attempt.get("committed", "")
        if committed.startswith("response-"):
            return "stop", "committed-by-response", None
        if self.attempts >= self.retry["maxAttempts"]:
            return "stop", "attempts-exhausted", None
        if pushback == -1:
            return "stop", "pushback", None
        if committed == "buffer-overflow":
            return "stop", "committed-by-buffer", None
        if pushback is not None:
            self.backoffs = 0
            return "retry", "pushback", Fraction(pushback * MS)
        return "retry", "backoff", self.backoff(attempt.get("jitter", Decimal("0.5")))


class World:
    """The channels and buckets of a vector."""

    def __init__(self, not_sent_replays):
        self.buckets = {}
        self.channels = {}
        self.not_sent_replays = not_sent_replays

    def tokens(self, bucket):
        return int(bucket.count) if bucket else None

    def run_call(self, channel, given):
        call = Call(channel, given)
        at = Fraction(0)
        counts = True
        for nth, attempt in enumerate(given["attempts"]):
            call.attempts += 1 if counts else 0
            expect = attempt["expect"]
            where = "attempt %d" % (nth + 1)
            check(where, "startsAtNs", at, expect["startsAtNs"])
            check(where, "previousAttempts", call.attempts - 1, expect.get("previousAttempts", 0))
            at += attempt["durationMs"] * MS
            decision, reason, delay = call.decide(attempt, self.not_sent_replays)
            if decision == "retry" and call.deadline is not None and at + delay >= call.deadline:
                decision, reason, delay = "stop", "no-time-left", None
            check(where, "decision", decision, expect["decision"])
            check(where, "reason", reason, expect["reason"])
            check(where, "delayNs", delay, expect.get("delayNs"))
            check(where, "tokensMilli", self.tokens(call.bucket), expect.get("tokensMilli"))
            counts = reason != "transparent"
            at += delay or 0

    def step(self, step):
        name = step.get("channel", "one")
        if "policy" in step:
            server = step.get("server", "cart")
            self.channels[name] = Channel(self, server, step["policy"])
            check("policy", "tokensMilli", self.tokens(self.channels[name].bucket), step.get("expect", {}).get("tokensMilli"))
        elif "close" in step:
            del self.channels[step["close"]]
        else:
            for _ in range(step.get("times", 1)):
                self.run_call(self.channels[name], step["call"])


# ---- checking

def check(where, what, actual, expected):
    if isinstance(expected, dict) and isinstance(actual, Fraction):
        holds = actual >= expected["atLeast"]
    elif isinstance(actual, Fraction) and expected is not None:
        holds = abs(actual - expected) <= max(1, Fraction(expected, 10 ** 12))
    else:
        holds = actual == expected
    if not holds:
        raise AssertionError("%s: %s is %s, not %s" % (where, what, actual, expected))


def check_policy(vector):
    try:
        policy = Policy(vector["policy"])
    except Invalid as invalid:
        check("policy", "valid (%s)" % invalid, False, vector["valid"])
        return
    check("policy", "valid", True, vector["valid"])
    read = dict(policy.retry_of("/cart.Cart/Get") or {}, **(policy.throttling or {}))
    check("policy", "what it says", read, vector.get("expect", {}))


def check_vector(vector, not_sent_replays=None):
    if "steps" not in vector:
        check_policy(vector)
        return
    world = World(not_sent_replays)
    for nth, step in enumerate(vector["steps"]):
        try:
            world.step(step)
        except AssertionError as error:
            raise AssertionError("step %d: %s" % (nth + 1, error)) from error


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file, parse_float=Decimal)


def holds(name, run):
    try:
        run()
    except AssertionError as error:
        print("[  FAILED  ] %s: %s" % (name, error))
        return False
    return True


def fails(vector):
    try:
        check_vector(vector)
    except AssertionError:
        return
    raise AssertionError("A6 expects the same: it deviates from nothing")


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    vectors = {}
    results = []
    for path in sorted((folder / "a6").glob("*.json")):
        for vector in load(path)["vectors"]:
            if vector["name"] in vectors:
                raise SystemExit("%s: %s is there twice" % (path, vector["name"]))
            vectors[vector["name"]] = vector
            results.append(holds(vector["name"], lambda v=vector: check_vector(v)))
    for path in sorted(folder.glob("*_deviations.json")):
        for deviation in load(path)["deviations"]:
            name = "%s in %s" % (deviation["vector"], path.name)
            changed = dict(vectors[deviation["vector"]], **deviation)
            results.append(holds(name, lambda v=changed: fails(v)))
            if "steps" in deviation:
                results.append(holds(name, lambda v=changed: check_vector(v, not_sent_replays=1)))
    print("[  PASSED  ] %d test(s)." % results.count(True))
    if False in results:
        print("[  FAILED  ] %d test(s)." % results.count(False))
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
