"""Runs operations on families against Keyspan and Bigtable's emulator, and tells where their cells differ.

    compare.py                          the scenarios of scenarios.py; fails if a difference is not listed
    compare.py --random N [--seed S]    N random tables with some sixty operations each; fails if a difference is not listed

A difference is listed in `differences.toml` with its reason, or is shrunk and printed as statements of Keyspan.
"""

import argparse
import collections
import dataclasses
import pathlib
import random
import re
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "differential"))

import psycopg  # noqa: E402

import scenarios  # noqa: E402
import servers  # noqa: E402
import table  # noqa: E402
from emulator import emulator  # noqa: E402
from random_operations import Checkpoint, Operations  # noqa: E402
from run import NO_READ, Run  # noqa: E402

OPERATIONS = 60
# So many tables wait together for the emulator, which collects about once a second.
TOGETHER = 40
TRIES = 150


class Listed:
    """The differences that are meant or known."""

    def __init__(self):
        self.entries = tomllib.loads((HERE / "differences.toml").read_text()).get("difference", [])

    def reason(self, scenario, definition, found):
        answers = f"Keyspan: {found.ours}\nBigtable: {found.theirs}"
        texts = {"scenario": scenario, "statement": f"{definition};\n{found.text}", "answers": answers}
        fits = lambda entry: all(re.search(entry.get(name, ""), text, re.I | re.M) for name, text in texts.items())
        return next((entry["reason"] for entry in self.entries if fits(entry)), None)


class Comparison:
    def __init__(self, connection, server):
        self.connection, self.server = connection, server
        self.listed = Listed()
        self.counts, self.reasons = collections.Counter(), collections.Counter()
        self.unlisted = self.tables = 0

    def start(self, scenario):
        self.tables += 1
        return Run(self.connection, self.server, f"t{self.tables}", scenario)

    def compare(self, named):
        """Runs these scenarios, by name, side by side: they wait for the emulator's collector together."""
        running = {name: self.start(scenario) for name, scenario in named.items()}
        steps = {name: run.steps(waits=True) for name, run in running.items()}
        found = {}
        while steps:
            for name in list(steps):
                try:
                    next(steps[name])
                except StopIteration as end:
                    found[name] = end.value
                    del steps[name]
            if steps:
                self.server.wait_for_collection()
        for name, run in running.items():
            self.counts["tables"] += 1
            self.counts["operations"] += sum(not isinstance(each, Checkpoint) for each in run.operations)
            self.counts["reads compared"] += run.reads
            if found[name]:
                self.judge(name, named[name], run, found[name])
            run.drop()

    def judge(self, name, scenario, run, found):
        reason = self.listed.reason(name, run.log[0], found)
        self.counts["differences, listed" if reason else "differences"] += 1
        if reason:
            self.reasons[reason] += 1
            return
        self.unlisted += 1
        text = found.text.replace(run.name, "t")
        operations, log, last = self.shrunk(scenario, found, text)
        print(f"-- {name}: {found.kind}")
        print(";\n".join([*log, text]) + ";")
        for title, ours in (("Keyspan", last.ours), ("Bigtable", last.theirs)):
            print(f"{title}:", "\n".join(map(str, ours)) if isinstance(ours, list) else ours)
        print(flush=True)

    def shrunk(self, scenario, found, text):
        """Leaves out the operations that the difference does not need; also the statements that are left."""

        only = text if re.match("SELECT|scan", text) else NO_READ

        def attempt(operations):
            run = self.start(dataclasses.replace(scenario, operations=operations))
            try:
                next(run.steps(waits=False, only=only))
            except StopIteration as end:
                last = end.value
            # The last statement is shown as the one that differs.
            log = [each.replace(run.name, "t") for each in run.log]
            log = log if found.kind == "rows" else log[:-1]
            run.drop()
            same = last and last.kind == found.kind and last.place == len(operations) - 1
            same = same and (found.kind != "refused" or last.ours[:5] == found.ours[:5])
            return (log, last) if same else None

        operations = scenario.operations[: found.place + 1]
        kept = attempt(operations)
        if not kept:
            return operations, ["-- not the same when it is run again"], found
        size, tries = max(1, len(operations) // 2), TRIES
        while size:
            at = 0
            while at < len(operations) - 1 and tries:
                tries -= 1
                candidate = operations[:at] + operations[min(at + size, len(operations) - 1) :]
                done = attempt(candidate)
                if done:
                    operations, kept = candidate, done
                else:
                    at += size
            size //= 2
        return operations, *kept

    def summary(self):
        for kind, count in self.counts.items():
            print(f"{count:6} {kind}")
        for reason, count in self.reasons.most_common():
            print(f"{count:6} listed: {reason}")


def random_scenario(seed):
    draw = random.Random(seed)
    return Operations(seed, table.table(draw), draw, time.time_ns() // 1000).scenario(OPERATIONS)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--random", type=int, metavar="N", help="so many random tables")
    arguments.add_argument("--seed", type=int, default=1, help="the first random table's seed")
    given = arguments.parse_args()
    with servers.keyspan() as ours, emulator() as theirs, psycopg.connect(ours, autocommit=True) as connection:
        for setting in ("SET TIME ZONE 'UTC'", "SET advice = 'off'"):
            connection.execute(setting)
        comparison = Comparison(connection, theirs)
        if given.random:
            seeds = list(range(given.seed, given.seed + given.random))
            for at in range(0, len(seeds), TOGETHER):
                comparison.compare({f"random, seed {seed}": random_scenario(seed) for seed in seeds[at : at + TOGETHER]})
        else:
            comparison.compare(scenarios.all())
        comparison.summary()
    return 1 if comparison.unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
