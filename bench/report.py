#!/usr/bin/env python3
"""report - what bench.sh has measured, beside budgets and peers.

  report.py table WORK                    for readers
  report.py json WORK                     for machines
  report.py results WORK LOAD FOLDER      writes FOLDER/results.json and FOLDER/results.md: the figures, the machine and
                                          the date; LOAD is what else the machine had to do when the run began
  report.py plots FOLDER                  draws FOLDER/results.json

WORK/figures has a line NAME VALUE for each figure, WORK/peers NAME PEER VALUE, apart by tabs.

SPDX-License-Identifier: Apache-2.0
"""

import datetime
import json
import os
import platform
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# Packages whose versions tell what was measured.
LIBRARIES = ["libgrpc29", "libgrpc++1.51", "golang-gopkg-eapache-go-resiliency.v1-dev", "valgrind"]

# What a unit's figures are to reach; of all others the budget is not to be exceeded.
TO_BE_REACHED = {"calls/s"}


def rows(path):
    """The lines of a table, each as a list of its fields."""
    with open(path, encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines if line.strip() and not line.startswith("#")]


def number(text):
    value = float(text)
    return int(value) if value.is_integer() else value


def known():
    """(heading, None) and (None, figure) in their order; a figure has no value yet."""
    for row in rows(os.path.join(HERE, "figures.tsv")):
        if len(row) == 1:
            yield row[0], None
        else:
            name, unit, budget, label = row
            yield None, {
                "name": name,
                "unit": unit,
                "budget": None if budget == "-" else number(budget),
                "label": label,
            }


def peers(work):
    """By a figure's name: {PEER: {"value", "measured", "source"}}, those of this run first."""
    found = {}
    for name, peer, value in rows(os.path.join(work, "peers")):
        found.setdefault(name, {})[peer] = {"value": number(value), "measured": True, "source": "this run"}
    for name, peer, value, source in rows(os.path.join(HERE, "peers", "reported.tsv")):
        found.setdefault(name, {}).setdefault(
            peer, {"value": number(value), "measured": False, "source": source})
    return found


def exceeded_by(figure):
    """How far a figure is beyond its budget; 0 when it is not."""
    if figure["budget"] is None:
        return 0
    beyond = figure["value"] - figure["budget"]
    if figure["unit"] in TO_BE_REACHED:
        beyond = -beyond
    return max(0, round(beyond, 3))


def measured(work):
    """As known(), of what was measured: headings without figures are left out."""
    values = {name: number(value) for name, value in rows(os.path.join(work, "figures"))}
    beside = peers(work)
    reasons = dict(rows(os.path.join(HERE, "reasons.tsv")))
    unknown = set(values)
    heading = None
    for title, figure in known():
        if figure is None:
            heading = title
            continue
        name = figure["name"]
        if name not in values:
            continue
        unknown.discard(name)
        figure["value"] = values[name]
        figure["peer"] = beside.get(name, {})
        over = exceeded_by(figure)
        if over:
            figure["over"] = {"by": over, "why": reasons.get(name, "no reason is known")}
        if heading:
            yield heading, None
            heading = None
        yield None, figure
    if unknown:
        sys.exit("bench/figures.tsv does not know: " + " ".join(sorted(unknown)))


def shown(value):
    return f"{value:,}"


def verdict(figure):
    if figure["budget"] is None:
        return ""
    budget = shown(figure["budget"])
    return f"{budget} EXCEEDED" if "over" in figure else f"{budget} met"


def missed(figure):
    """A line about a figure beyond its budget."""
    over = figure["over"]
    # An exceeded budget of 0 has no share.
    share = f" ({round(100 * over['by'] / figure['budget'])} %)" if figure["budget"] else ""
    way = "below" if figure["unit"] in TO_BE_REACHED else "over"
    return f"{figure['name']}: {shown(over['by'])} {figure['unit']}{share} {way} its budget: {over['why']}"


def told_of(peer, entry):
    return f"{peer} {shown(entry['value'])}" + ("" if entry["measured"] else " (reported)")


def print_table(work):
    print(f"  {'':<64} {'':>14} {'':<12} {'budget':<20} peers")
    over = []
    for heading, figure in measured(work):
        if figure is None:
            print(heading)
            continue
        beside = ", ".join(told_of(peer, entry) for peer, entry in figure["peer"].items())
        line = f"  {figure['label']:<64} {shown(figure['value']):>14} {figure['unit']:<12} {verdict(figure):<20} {beside}"
        print(line.rstrip())
        if "over" in figure:
            over.append(figure)
    print(f"{len(over)} over their budgets" + (":" if over else ""))
    for figure in over:
        print("  " + missed(figure))


def as_json(figure):
    return {key: figure[key] for key in ("name", "value", "unit", "budget", "peer", "over") if key in figure}


def json_list(figures):
    """A line for each."""
    return "[" + ",\n ".join(json.dumps(as_json(figure)) for figure in figures) + "]"


def print_json(work):
    print(json_list(figure for _, figure in measured(work) if figure))


# --- results ---


def first_line(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0]
    except (OSError, subprocess.CalledProcessError):
        return ""


def file_value(path, key):
    """Of a file of lines KEY=VALUE or KEY : VALUE."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            match = re.match(re.escape(key) + r"\s*[:=]\s*\"?([^\"\n]*)", line)
            if match:
                return match.group(1)
    return ""


def machine(load):
    versions = {name: first_line("dpkg-query", "-W", "-f", "${Version}", name) for name in LIBRARIES}
    return {
        "processor": file_value("/proc/cpuinfo", "model name"),
        "family": file_value("/proc/cpuinfo", "cpu family"),
        "processors": os.cpu_count(),
        "kernel": platform.release(),
        "system": file_value("/etc/os-release", "PRETTY_NAME"),
        "compiler": first_line("gcc", "--version") + ", -O3",
        "libraries": {name: version for name, version in versions.items() if version},
        "go": first_line("go", "version"),
        "load_before": float(load),
    }


def described(results):
    """The machine and the date in one line."""
    about = results["machine"]
    core = about["libraries"].get("libgrpc29", "?")
    return (f"{results['date']}, {about['processors']} processors {about['processor']} (family {about['family']}), "
            f"Linux {about['kernel']}, {about['compiler']}, libgrpc {core}, load before {about['load_before']}")


def write_results(work, load, folder):
    found = list(measured(work))
    results = {"date": datetime.date.today().isoformat(), "machine": machine(load)}
    with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as out:
        out.write(json.dumps(results, indent=1)[:-2])
        out.write(",\n \"figures\":\n" + json_list(figure for _, figure in found if figure) + "\n}\n")
    with open(os.path.join(folder, "results.md"), "w", encoding="utf-8") as out:
        out.write("<!-- Made by `make bench ARGS=--plots`. -->\n# Results\n\n" + described(results) + ".\n")
        out.write("[results.json](results.json) has the same for machines. [bench.md](../bench.md) says what each "
                  "figure means.\n")
        if results["machine"]["load_before"] > results["machine"]["processors"]:
            out.write("\n**The machine had other work to do: times are worth little.**\n")
        over = [figure for _, figure in found if figure and "over" in figure]
        out.write(f"\n## Over budget: {len(over)}\n\n")
        out.writelines(f"- {missed(figure)}\n" for figure in over)
        for heading, figure in found:
            if figure is None:
                out.write(f"\n## {heading[0].upper()}{heading[1:]}\n\n"
                          "| figure | | value | unit | budget | peers |\n| --- | --- | ---: | --- | --- | --- |\n")
                continue
            beside = ", ".join(told_of(peer, entry) for peer, entry in figure["peer"].items())
            said = verdict(figure).replace("EXCEEDED", "**exceeded**")
            cells = [f"`{figure['name']}`", figure["label"], shown(figure["value"]), figure["unit"], said, beside]
            out.write("| " + " | ".join(cells) + " |\n")


def draw(folder):
    import plots  # beside this file; only here, since nothing else needs what it does

    with open(os.path.join(folder, "results.json"), encoding="utf-8") as text:
        results = json.load(text)
    plots.draw({figure["name"]: figure for figure in results["figures"]}, described(results), folder)


def main(verb, *arguments):
    {"table": print_table, "json": print_json, "results": write_results, "plots": draw}[verb](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
