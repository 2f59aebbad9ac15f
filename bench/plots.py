"""plots - the figures of a run as SVG, by gnuplot. The same figures make the same bytes.

SPDX-License-Identifier: Apache-2.0
"""

import os
import subprocess

WEIR = "#1f5fa8"
WEIR_PART = "#8fb3dc"
PEER = "#9a9a9a"
REPORTED = "#d9d9d9"
BUDGET = "#c0392b"

# Lines: as many colours as there are series at most.
LINES = [WEIR, "#d08a2e", "#4f8f4f", PEER]

PEER_LABELS = {
    "core_retries": "core with its own retries",
    "grpcpp_interceptors": "gRPC C++, four interceptors",
    "grpc_core": "gRPC core",
    "core_lame_channel": "core, lame channel",
    "go_resiliency": "go-resiliency",
    "gobreaker": "gobreaker",
}

# Pixels.
WIDTH = 900
BAR = 21
AROUND_BARS = 125


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def shown(value):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def under(footer):
    """The machine and the date, in two lines that fit."""
    cut = footer.find(", ", len(footer) // 2) + 2
    return quoted(footer[:cut].strip() + "\n" + footer[cut:]).replace("\n", "\\n")


def thousands(number):
    return f"{quoted(f'{number:,}')} {number}"


class Plot:
    """The text that gnuplot is given for a file."""

    def __init__(self, title, footer, height):
        self.lines = [
            f"set terminal svg noenhanced size {WIDTH},{height} font 'sans-serif,13' background '#ffffff'",
            "set border 3 linecolor '#888888'",
            "set tics nomirror textcolor '#222222'",
            "set grid linecolor '#e4e4e4' linetype 1 linewidth 1",
            f"set label 999 {quoted(title)} at screen 0.012,{1 - 20 / height:.4f} font ',15' textcolor '#222222'",
            f"set label 1000 {under(footer)} at screen 0.012,{26 / height:.4f} font ',9' textcolor '#666666'",
        ]

    def add(self, *lines):
        self.lines.extend(lines)

    def data(self, name, rows):
        self.lines.append(f"${name} << EOD")
        self.lines.extend(" ".join(str(cell) for cell in row) for row in rows)
        self.lines.append("EOD")

    def write(self, path):
        text = "\n".join(self.lines) + "\n"
        made = subprocess.run(["gnuplot"], input=text, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
        with open(path, "w", encoding="utf-8") as out:
            out.write(made.stdout)


def bars(path, footer, title, groups):
    """Bars that lie: groups of (label, value, colour, budget or None), a gap between groups."""
    rows, ticks, budgets, place = [], [], [], 0.0
    for group in groups:
        for label, value, colour, budget in group:
            beyond = max(value, budget or 0, 0)  # where there is room for the number
            rows.append((place, value, int(colour[1:], 16), beyond, quoted(shown(value))))
            ticks.append(f"{quoted(label)} {place}")
            if budget is not None:
                budgets.append((budget, place - 0.46, 0, 0.92))
            place += 1
        place += 0.6 if group else 0
    if not rows:
        return
    height = int(place * BAR) + AROUND_BARS
    plot = Plot(title, footer, height)
    plot.data("bars", rows)
    plot.add(
        f"set xrange [{min(0, min(row[1] for row in rows))}:{1.13 * max(row[3] for row in rows)}]",
        f"set yrange [{place - 0.4}:-0.8]", "set ytics (" + ", ".join(ticks) + ") scale 0", "unset key",
        "set format x '%.0s%c'", "set grid noytics", f"set bmargin at screen {75 / height:.4f}",
        f"set tmargin at screen {1 - 58 / height:.4f}", "set style fill solid 1.0 noborder",
    )
    parts = [
        "$bars using 2:1:(0):2:($1-0.38):($1+0.38):3 with boxxyerror linecolor rgb variable",
        "$bars using 4:1:5 with labels left offset 0.6,0 font ',11' textcolor '#222222'",
    ]
    if budgets:
        plot.data("budgets", budgets)
        parts.append(f"$budgets using 1:2:3:4 with vectors nohead linewidth 2.5 linecolor '{BUDGET}'")
        plot.add(f"set label 1001 '| budget' at screen 0.98,{1 - 46 / height:.4f} right font ',12' textcolor '{BUDGET}'")
    plot.add("plot " + ", \\\n  ".join(parts))
    plot.write(path)


def curves(plot, panel, xlabel, ylabel, series, sizes, extra=(), budget=None):
    """Lines of (label, [(x, y)]) in the half of the picture that `panel` says (0, 1; None = all of it)."""
    series = [(label, points) for label, points in series if points]
    left, right = {0: (0.08, 0.47), 1: (0.57, 0.96), None: (0.08, 0.97)}[panel]
    plot.add(
        f"set lmargin at screen {left}", f"set rmargin at screen {right}", "set tmargin at screen 0.72",
        "set bmargin at screen 0.24", f"set xlabel {quoted(xlabel)}", f"set ylabel {quoted(ylabel)} offset 1.2,0", "set logscale x 10",
        "set xtics (" + ", ".join(thousands(size) for size in sizes) + ")", f"set xrange [{sizes[0] / 1.5}:{sizes[-1] * 1.5}]",
        f"set key at screen {left},0.91 left top Left reverse vertical maxrows 3 samplen 1.5 font ',12'", *extra,
    )
    parts = []
    for i, (label, points) in enumerate(series):
        name = f"{'all' if panel is None else 'lr'[panel]}{i}"
        plot.data(name, points)
        parts.append(f"${name} using 1:2 with linespoints pointtype 7 pointsize 0.6 linewidth 2 "
                     f"linecolor '{LINES[i]}' title {quoted(label)}")
    if budget is not None:
        plot.data(f"budget{panel}", [budget])
        parts.append(f"$budget{panel} using 1:2 with points pointtype 2 pointsize 1.2 linewidth 2.5 linecolor '{BUDGET}' title 'budget'")
    plot.add("plot " + ", \\\n  ".join(parts))


class Figures:
    def __init__(self, figures):
        self.by_name = figures

    def has(self, name):
        return name in self.by_name

    def value(self, name):
        return self.by_name[name]["value"]

    def over(self, sizes, name):
        """(size, value) of the figures that `name` names for each size."""
        return [(n, self.value(name.format(n))) for n in sizes if self.has(name.format(n))]

    def peers_over(self, sizes, name, peer):
        return [(n, self.by_name[name.format(n)]["peer"][peer]["value"]) for n in sizes
                if self.has(name.format(n)) and peer in self.by_name[name.format(n)]["peer"]]

    def group(self, name, label, peers=True):
        """weir's bar, with its budget, and those of its peers."""
        if not self.has(name):
            return []
        figure = self.by_name[name]
        found = [(label, figure["value"], WEIR, figure["budget"])]
        for peer, entry in figure["peer"].items() if peers else ():
            told = PEER_LABELS.get(peer, peer) + ("" if entry["measured"] else " (reported)")
            found.append((told, entry["value"], PEER if entry["measured"] else REPORTED, None))
        return found


def draw_calls(figures, footer, path):
    budget = figures.by_name.get("unary_one_batch.instructions_over_bare", {}).get("budget")
    own = [("unary_one_batch.instructions_over_bare_none", "weir, switched off as far as a policy can", WEIR_PART)]
    own += [(f"unary_one_batch.instructions_over_bare_{layer}", f"weir, {layer} alone", WEIR_PART)
            for layer in ("deadline", "translation", "breaker", "retry")]
    own += [("unary_one_batch.instructions_over_bare", "weir, all four layers", WEIR)]
    others = [("two_headers.instructions_over_bare", "bare core, sending weir's two headers"),
              ("core_retries.instructions_over_bare", PEER_LABELS["core_retries"]),
              ("grpcpp_interceptors.instructions_over_bare", PEER_LABELS["grpcpp_interceptors"])]
    bars(path, footer, "A unary call in one batch: instructions over the bare core (C++: over itself without interceptors)", [
             [(label, figures.value(name), colour, budget) for name, label, colour in own if figures.has(name)],
             [(label, figures.value(name), PEER, None) for name, label in others if figures.has(name)]])


def draw_scenarios(figures, footer, path):
    calls = [("unary_one_batch", "one call, 32 B"), ("unary_64k", "one call, 64 KiB"), ("unary_8_at_once", "8 calls at once"),
             ("unary_64_at_once", "64 calls at once"), ("unary_six_batches", "a call in six batches")]
    messages = [("stream", "a message received"), ("client_stream", "a message sent")]
    bars(path, footer, "Instructions over bare, of a call or of a message of a stream",
         [figures.group(f"{name}.instructions_over_bare", f"weir: {label}") for name, label in calls] +
         [figures.group(f"{name}.instructions_over_bare_per_message", f"weir: {label}") for name, label in messages])


def draw_decisions(figures, footer, path):
    bars(path, footer, "Decisions: nanoseconds of one", [figures.group(name, label) for name, label in (
        ("breaker.admit_settle_ns", "breaker, closed: admit and settle"),
        ("breaker.admit_settle_without_clock_ns", "the same, the time being known"),
        ("breaker.admit_fail_ns", "breaker, closed: a failure"),
        ("breaker.refuse_ns", "breaker, open: refuse"),
        ("throttle.record_ns", "throttle: a success, not full"),
        ("throttle.record_full_ns", "throttle: a success, full"),
        ("throttle.record_failure_ns", "throttle: a failure"))])


def draw_wall(figures, footer, path):
    names = {1: "unary_one_batch.wall_ratio", 8: "unary_8_at_once.wall_ratio", 64: "unary_64_at_once.wall_ratio"}
    at = [n for n, name in names.items() if figures.has(name)]
    plot = Plot("Time of a unary call over its time on the bare core (C++: over itself without interceptors)", footer, 420)

    def peer(which):
        return [(n, figures.by_name[names[n]]["peer"][which]["value"]) for n in at if which in figures.by_name[names[n]]["peer"]]

    series = [("weir, all four layers", [(n, figures.value(names[n])) for n in at])]
    series += [(PEER_LABELS[which], peer(which)) for which in ("core_retries", "grpcpp_interceptors")]
    curves(plot, None, "calls at once", "ratio", series, (1, 8, 64), (
        "set yrange [*<0.98:1.1<*]", "set format y '%.2f'",
        "set arrow 1 from graph 0,first 1 to graph 1,first 1 nohead linecolor '#222222' dashtype 2"))
    plot.write(path)


def draw_backoff(figures, footer, path):
    sizes = (1, 1000, 100000)
    plot = Plot("Calls in backoff: what one costs the thread, and its memory", footer, 460)
    plot.add("set multiplot")
    curves(plot, 0, "calls in backoff at once", "ns", [
        ("to backoff", figures.over(sizes, "backoff_{}.start_ns")),
        ("second attempt", figures.over(sizes, "backoff_{}.due_ns")),
        ("cancel", figures.over(sizes, "backoff_{}.cancel_ns")),
        ("timer alone", figures.over(sizes, "timer.of_{}_ns"))], sizes, ("set logscale y 10", "set format y '%.0s%c'"))
    plot.add("unset label 999", "unset label 1000")
    curves(plot, 1, "calls in backoff at once", "bytes", [
        ("weir's part", figures.over(sizes[1:], "backoff_{}.weir_bytes_per_call")),
        ("the core's included", figures.over(sizes[1:], "backoff_{}.bytes_per_call")),
        (PEER_LABELS["core_retries"], figures.peers_over(sizes[1:], "backoff_{}.bytes_per_call", "core_retries"))],
        sizes, ("unset logscale y", "set yrange [0:*]"))
    plot.add("unset multiplot")
    plot.write(path)


def draw_policy(figures, footer, path):
    sizes = (10, 100, 1000, 10000)
    plot = Plot("Policies: to load one, and to find what holds for a method", footer, 460)
    plot.add("set multiplot")
    budget = figures.by_name.get("policy_10000.load_ms", {}).get("budget")
    curves(plot, 0, "methods", "ms", [
        ("weir", figures.over(sizes, "policy_{}.load_ms")),
        ("gRPC core, of the same text", figures.peers_over(sizes, "policy_{}.load_ms", "grpc_core"))],
        sizes, ("set logscale y 10", "set format y '%g'"), (10000, budget) if budget is not None else None)
    plot.add("unset label 999", "unset label 1000")
    curves(plot, 1, "methods, of which 10 are in use", "ns", [("weir", figures.over(sizes, "policy.lookup_{}_ns"))],
           sizes, ("unset logscale y", "set yrange [0:*]"))
    plot.add("unset multiplot")
    plot.write(path)


def draw(by_name, footer, folder):
    figures = Figures(by_name)
    for name, draw_one in (("calls", draw_calls), ("scenarios", draw_scenarios), ("decisions", draw_decisions),
                           ("wall", draw_wall), ("backoff", draw_backoff), ("policy", draw_policy)):
        draw_one(figures, footer, os.path.join(folder, name + ".svg"))
