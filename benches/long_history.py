#!/usr/bin/env python3
"""Writes a vault with a long history as a stream for `git fast-import`.

100,000 notes in 500 folders, then 99,999 commits of one note each; `rare.md` in three of them, and
a note that is created and deleted in every thousand.

    git init -b main VAULT && benches/long_history.py | git -C VAULT fast-import --quiet
    git -C VAULT reset --hard
    remd up --no-mount VAULT        # keeps the table of paths; then stop it
    time remd -C VAULT log
    time remd -C VAULT log memory/y3/m4/rare.md
    time git -C VAULT log -n 20 -- memory/y3/m4/rare.md
"""

import random
import sys

NOTES = 100_000
COMMITS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
RARE = {COMMITS // 20, COMMITS // 2, COMMITS - COMMITS // 100}
START = 1_700_000_000
out = sys.stdout.buffer


def path(note):
    return f"memory/y{note % 20}/m{note // 20 % 25}/note-{note}.md"


def commit(number, message, files):
    time = START + number * 120
    out.write(
        f"commit refs/heads/main\nauthor Ada <ada@example.org> {time} +0000\n"
        f"committer remd <remd@host> {time} +0000\ndata {len(message)}\n{message}\n".encode()
    )
    for name, text in files:
        if text is None:
            out.write(f"D {name}\n".encode())
        else:
            out.write(f"M 100644 inline {name}\ndata {len(text)}\n{text}\n".encode())


random.seed(1)
notes = ((path(n), f"# Note {n}\n\nword{n % 997} and more words of note {n}\n") for n in range(NOTES))
commit(0, "memory: 100000 changes (memory/ 100000)\n\nRemd-Cause: adopt\n", notes)
for number in range(1, COMMITS):
    if number % 1000 == 499:
        name, text = f"digest/gone-{number}.md", f"# Gone {number}\n\nthe needle of {number}\n"
        commit(number, f"memory: create {name}\n\nRemd-Cause: edit\n", [(name, text)])
    elif number % 1000 == 500:
        name = f"digest/gone-{number - 1}.md"
        commit(number, f"memory: delete {name}\n\nRemd-Cause: edit\n", [(name, None)])
    else:
        name = "memory/y3/m4/rare.md" if number in RARE else path(random.randrange(NOTES))
        text = f"# Note\n\nword{number % 997} edit {number}\nmore words\n"
        commit(number, f"memory: update {name}\n\nRemd-Cause: edit\n", [(name, text)])
