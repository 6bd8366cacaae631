"""Bigtable's emulator on this machine alone, and its tables. Go fetches and builds it once, into the target folder.

Its cells are read one by one as (key, family, qualifier, timestamp, value), in its order.
"""

import base64
import contextlib
import os
import pathlib
import subprocess
import time

import grpc
from google.cloud.bigtable_admin_v2.services.bigtable_table_admin import BaseBigtableTableAdminClient
from google.cloud.bigtable_admin_v2.services.bigtable_table_admin.transports import BigtableTableAdminGrpcTransport
from google.cloud.bigtable_v2.services.bigtable import BigtableClient
from google.cloud.bigtable_v2.services.bigtable.transports import BigtableGrpcTransport
from google.cloud.bigtable_v2.types import FeatureFlags

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = "v1.58.0"
PACKAGE = f"cloud.google.com/go/bigtable/cmd/emulator@{VERSION}"
PARENT = "projects/keyspan/instances/keyspan"
SERVER_TIME = -1
# The finer granularity: two writes in one millisecond, which the servers stamp, are two versions.
MICROS = 2
COLLECTED_WITHIN = 30


def fetched():
    """The program. A build per version, so that a new one is not taken for the old."""
    folder = ROOT / "target" / "bigtable" / VERSION
    if not (folder / "emulator").exists():
        subprocess.run(["go", "install", PACKAGE], env=os.environ | {"GOBIN": str(folder), "GOFLAGS": ""}, check=True)
    return folder / "emulator"


@contextlib.contextmanager
def emulator():
    """An emulator without tables."""
    command = [fetched(), "-host", "127.0.0.1", "-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield Bigtable(process.stdout.readline().split()[-1])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Bigtable:
    def __init__(self, address):
        channel = grpc.insecure_channel(address)
        self.data = BigtableClient(transport=BigtableGrpcTransport(channel=channel))
        self.admin = BaseBigtableTableAdminClient(transport=BigtableTableAdminGrpcTransport(channel=channel))
        flags = FeatureFlags.serialize(FeatureFlags(reverse_scans=True))
        self.metadata = [("bigtable-features", base64.urlsafe_b64encode(flags).decode())]
        self.sentinels = 0

    def create(self, name, rules):
        """A table with these families and their rules, of which `None` keeps all versions."""
        families = {family: {"gc_rule": rule} if rule else {} for family, rule in rules.items()}
        table = {"granularity": MICROS, "column_families": families}
        self.admin.create_table(request={"parent": PARENT, "table_id": name, "table": table})
        return Table(self, name)

    def wait_for_collection(self):
        """Waits until all that was written has been looked at by the collector, which passes about once a second.

        Of a pass that has done a sentinel no one knows which other tables it has done before the sentinel was written:
        the pass between two others is a whole one.
        """
        for _ in range(3):
            self.sentinels += 1
            sentinel = self.create(f"sentinel{self.sentinels}", {"f": {"max_num_versions": 1}})
            # Only a change of families starts the collector.
            sentinel.change({"id": "f", "update": {"gc_rule": {"max_num_versions": 1}}})
            sentinel.mutate(b"k", [set_cell("f", b"q", stamp, b"") for stamp in (1, 2)])
            deadline = time.monotonic() + COLLECTED_WITHIN
            while len(sentinel.read()) > 1:
                if time.monotonic() > deadline:
                    raise RuntimeError("the emulator collects nothing")
                time.sleep(0.02)
            sentinel.drop()


class Table:
    def __init__(self, server, name):
        self.server = server
        self.name = f"{PARENT}/tables/{name}"

    def change(self, *modifications):
        request = {"name": self.name, "modifications": list(modifications)}
        self.server.admin.modify_column_families(request=request)

    def drop(self):
        self.server.admin.delete_table(request={"name": self.name})

    def drop_rows(self, prefix):
        """All rows with this prefix; `None` for all."""
        which = {"delete_all_data_from_table": True} if prefix is None else {"row_key_prefix": prefix}
        self.server.admin.drop_row_range(request={"name": self.name, **which})

    def mutate(self, key, mutations):
        if mutations:
            self.server.data.mutate_row(request={"table_name": self.name, "row_key": key, "mutations": mutations})

    def mutate_rows(self, entries):
        entries = [{"row_key": key, "mutations": mutations} for key, mutations in entries]
        list(self.server.data.mutate_rows(request={"table_name": self.name, "entries": entries}))

    def read_modify_write(self, key, family, qualifier, rule):
        """The cell's new value."""
        rule = {"family_name": family, "column_qualifier": qualifier, **rule}
        request = {"table_name": self.name, "row_key": key, "rules": [rule]}
        row = self.server.data.read_modify_write_row(request=request).row
        return row.families[0].columns[0].cells[0].value

    def check_and_mutate(self, key, predicate, then, otherwise):
        """Whether the predicate held."""
        request = {"table_name": self.name, "row_key": key, "predicate_filter": predicate}
        request |= {"true_mutations": then, "false_mutations": otherwise}
        return self.server.data.check_and_mutate_row(request=request).predicate_matched

    def read(self, chain=(), rows=None, limit=0, reverse=False):
        """The cells that pass all these filters, of these rows."""
        request = {"table_name": self.name, "rows_limit": limit, "reversed": reverse}
        if chain:
            request["filter"] = {"chain": {"filters": list(chain)}} if len(chain) > 1 else chain[0]
        if rows:
            request["rows"] = rows
        cells = {}
        for response in self.server.data.read_rows(request=request, metadata=self.server.metadata):
            for chunk in response._pb.chunks:
                cell = (chunk.row_key, chunk.family_name.value, chunk.qualifier.value, chunk.timestamp_micros)
                # A column that was collected whole and written again is shown twice: the emulator's own mistake.
                cells[cell] = chunk.value
        return [(*cell, value) for cell, value in cells.items()]


def set_cell(family, qualifier, stamp, value):
    cell = {"family_name": family, "column_qualifier": qualifier, "timestamp_micros": stamp, "value": value}
    return {"set_cell": cell}


def delete_cells(family, qualifier, until=None, since=0):
    """Of a column the versions from a time on and before a time, or all."""
    column = {"family_name": family, "column_qualifier": qualifier}
    times = {"start_timestamp_micros": since, "end_timestamp_micros": until}
    return {"delete_from_column": column | ({"time_range": times} if until else {})}


def delete_family(family):
    return {"delete_from_family": {"family_name": family}}


DELETE_ROW = {"delete_from_row": {}}
