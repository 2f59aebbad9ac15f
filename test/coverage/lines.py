#!/usr/bin/env python3
# test/coverage/lines.py - which lines ran, of what gcov has to say; and whether each that did not is named with a reason.
#
#   test/coverage/lines.py trace FOLDER > TRACE      of the .gcno and .gcda files in FOLDER, as gcovr reads it
#   test/coverage/lines.py check TRACE UNCOVERED     exits 1 where UNCOVERED (its own head says what it is) is wrong
#
# From the root of the sources.
#
# SPDX-License-Identifier: Apache-2.0
import collections
import json
import os
import re
import subprocess
import sys

# Whose lines must be covered or named; and what is told of beside it.
NAMED = ("src/", "interceptors/")
MEASURED = NAMED + ("cmd/",)

# gcov counts a brace that is left as a line of its own.
NO_CODE = re.compile(r"[{}\s;]*(else)?[{\s]*")

# What UNCOVERED marks a line with: no test runs it; or one does in some runs, which threads decide.
NEVER, EITHER = "-", "~"


def gcov_documents(folder):
    """What gcov tells of each object in the folder, and whether a program ran that has it."""
    notes = []
    for where, _, names in os.walk(folder):
        notes += [os.path.join(where, name) for name in names if name.endswith(".gcno")]
    if not notes:
        sys.exit(f"{folder}: no .gcno: they were not made, or a cache kept the objects without them")
    notes.sort()
    told = subprocess.run(["gcov", "--json-format", "--stdout", *notes], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout.decode()
    documents = [json.loads(line) for line in told.splitlines()]
    if len(documents) != len(notes):
        sys.exit(f"gcov tells of {len(documents)} objects of {len(notes)}")
    return [(document, os.path.exists(note[:-len("gcno")] + "gcda")) for note, document in zip(notes, documents)]


def counted(documents):
    """{file: {line: [count, function]}}; a file is in many objects, if it is a header."""
    files = collections.defaultdict(dict)
    ran = {document["files"][0]["file"] for document, has_run in documents if has_run and document["files"]}
    for document, has_run in documents:
        # An object that Bazel left where it was when its source went elsewhere.
        if not has_run and document["files"] and document["files"][0]["file"] in ran:
            continue
        for file in document["files"]:
            path = os.path.normpath(file["file"])
            if not path.startswith(MEASURED) or not os.path.exists(path):
                continue
            for line in file["lines"]:
                of_line = files[path].setdefault(line["line_number"], [0, line.get("function_name", "")])
                of_line[0] += line["count"]
    return files


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return [""] + [line.strip() for line in file]


def trace(folder):
    """A tracefile of gcovr's, with the function of each line beside what gcovr wants."""
    told = []
    for path, lines in sorted(counted(gcov_documents(folder)).items()):
        text = text_of(path)
        if max(lines) >= len(text):
            sys.exit(f"{path} has changed since it was compiled")
        told.append({
            "file": path,
            "functions": [],
            "lines": [{
                "branches": [],
                "count": count,
                "function": function,
                "gcovr/excluded": False,
                "gcovr/noncode": count == 0 and NO_CODE.fullmatch(text[number]) is not None,
                "line_number": number,
            } for number, (count, function) in sorted(lines.items())],
        })
    return {"gcovr/format_version": "0.3", "files": told}


class Place(collections.namedtuple("Place", "path function text")):
    """Where a line is, however the lines before it change."""


def lines_of(tracefile):
    """{place: [(number, count)]}: of a line that a function has more than once, each."""
    places = collections.defaultdict(list)
    for file in tracefile["files"]:
        if not file["file"].startswith(NAMED):
            continue
        text = text_of(file["file"])
        for line in file["lines"]:
            if not line["gcovr/noncode"]:
                place = Place(file["file"], line["function"], text[line["line_number"]])
                places[place].append((line["line_number"], line["count"]))
    return places


def named_in(path):
    """{place: {mark: n}} of UNCOVERED, and what is wrong with its form."""
    named, faults = collections.defaultdict(collections.Counter), []
    file_name = function = None
    unexplained = 0
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            indent, words = len(line) - len(line.lstrip(" ")), line.strip()
            if not words or words.startswith("#"):
                continue
            if unexplained and indent == 0:
                faults.append(f"{path}:{unexplained}: no reason stands below it")
                unexplained = 0
            if indent == 0:
                file_name, function = words, None
            elif indent == 2 and file_name:
                function = words
            elif indent == 4 and function and words[:2] in (NEVER + " ", EITHER + " "):
                named[Place(file_name, function, words[2:])][words[0]] += 1
                unexplained = number
            elif indent == 6 and function:
                unexplained = 0
            else:
                faults.append(f"{path}:{number}: neither a file, nor a function, a line or a reason")
    if unexplained:
        faults.append(f"{path}:{unexplained}: no reason stands below it")
    return named, faults


def check(tracefile, uncovered):
    """What is wrong, and how many lines did not run."""
    places = lines_of(tracefile)
    named, faults = named_in(uncovered)
    n_uncovered = 0
    for place in sorted(set(places) | set(named)):
        numbers = [number for number, count in places[place] if count == 0]
        n_uncovered += len(numbers)
        marks = named.get(place, {})
        never, either = marks.get(NEVER, 0), marks.get(EITHER, 0)
        where = f"{place.path}:{numbers[0] if numbers else 1}: {place.function}: {place.text}"
        if never + either > len(places[place]):
            faults.append(f"{where}    <- is gone, and still in {uncovered}")
        elif len(numbers) < never:
            faults.append(f"{where}    <- a test runs it: take it out of {uncovered}")
        elif len(numbers) > never + either:
            faults.append(f"{where}    <- no test runs it: write one, or its reason into {uncovered}")
    return faults, n_uncovered


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "trace":
        json.dump(trace(arguments[1]), sys.stdout)
        return 0
    if len(arguments) == 3 and arguments[0] == "check":
        with open(arguments[1], encoding="utf-8") as file:
            faults, n_uncovered = check(json.load(file), arguments[2])
        print("".join(fault + "\n" for fault in faults), end="")
        print(f"coverage: {n_uncovered} lines of {' and '.join(NAMED)} did not run, {len(faults)} faults in what is said of them")
        return 1 if faults else 0
    sys.exit("usage: lines.py trace FOLDER | lines.py check TRACE UNCOVERED")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
