#!/usr/bin/env python3
# test/doc/getting_started.py [PAGE] - does what doc/getting-started.md says, as it stands there, in an empty folder: writes
# its files, types its commands, and compares what is printed.
#
# weir is found as a reader's shell finds it: by cc, pkg-config and weirctl, so PKG_CONFIG_PATH, LD_LIBRARY_PATH and PATH
# say where a staged installation is. Or by the environment:
#
#   CFLAGS, LIBS   what pkg-config is to say of weir
#   WEIRCTL        the tool
#
# A port of the page is replaced by a free one.
#
# SPDX-License-Identifier: Apache-2.0
import os
import queue
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading

PORT = "50051"
PATIENCE_S = 120
END = "--that-was-it--"


def free_port():
    with socket.socket() as bound:
        bound.bind(("localhost", 0))
        return str(bound.getsockname()[1])


def pattern_of(shown):
    """What is shown, as a pattern: … is anything in a line, or, alone, any lines."""
    lines = [r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
             for line in shown.split("\n")[:-1]]
    return re.compile("".join(lines))


class Shell:
    """A shell that is typed into. What it prints comes line by line, errors in between."""

    def __init__(self, folder, environment):
        self.process = subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        cwd=folder, env=environment, encoding="utf-8", start_new_session=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def type(self, command, shown):
        """Types a command, and waits for what is shown, or for the command's end and anything else."""
        if command.startswith("kill "):  # a reader takes long enough for the shell to see the end
            command += "; wait " + command[len("kill "):] + " 2>/dev/null"
        self.process.stdin.write(f"{command}\necho {END}\n")
        self.process.stdin.flush()
        printed = ""
        ended = False
        while not (ended and (pattern_of(shown).fullmatch(printed) or not command.endswith("&"))):
            try:
                line = self.lines.get(timeout=PATIENCE_S)
            except queue.Empty:
                break
            if line == "":
                break
            ended = ended or line == END + "\n"
            printed += line if line != END + "\n" else ""
        return printed

    def end(self):
        os.killpg(self.process.pid, 9)


def walk(page, shell, folder):
    """Does what the page says; the number of what was typed, of files, and what was wrong."""
    n_files = n_commands = 0
    wrong = []
    port = free_port()
    blocks = re.findall(r"^(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for name, language, text in blocks:
        if name:
            n_files += 1
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        elif language == "console":
            for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text.replace(PORT, port), re.MULTILINE):
                n_commands += 1
                printed = shell.type(command, shown)
                if not pattern_of(shown).fullmatch(printed):
                    wrong.append(f"$ {command}\n{printed}--- the page shows:\n{shown}")
    return n_files, n_commands, wrong


def environment_in(folder):
    environment = dict(os.environ)
    if "CFLAGS" in environment or "LIBS" in environment:
        flags = environment.pop("CFLAGS", "") + " " + environment.pop("LIBS", "")
        with open(os.path.join(folder, "pkg-config"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho {shlex.quote(flags)}\n")
        os.chmod(os.path.join(folder, "pkg-config"), 0o755)
    if "WEIRCTL" in environment:
        os.symlink(os.path.abspath(environment["WEIRCTL"]), os.path.join(folder, "weirctl"))
    # Debian's python3, which its python3-grpcio is for.
    environment["PATH"] = os.pathsep.join((folder, "/usr/bin", "/bin", environment.get("PATH", "")))
    return environment


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../../doc/getting-started.md")
    with open(path, encoding="utf-8") as file:
        page = file.read()
    with tempfile.TemporaryDirectory() as tools, tempfile.TemporaryDirectory() as folder:
        shell = Shell(folder, environment_in(tools))
        try:
            n_files, n_commands, wrong = walk(page, shell, folder)
        finally:
            shell.end()
    print("\n".join(wrong), end="")
    print(f"{path}: {n_files} files, {n_commands} commands, {len(wrong)} of them not as shown")
    return int(bool(wrong) or n_files < 5 or n_commands < 20)


if __name__ == "__main__":
    sys.exit(main())
