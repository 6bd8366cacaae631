"""A Cassandra 5 on a folder of its own, on this machine alone. Maven fetches it once, into the target folder."""

import contextlib
import glob
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
STARTS_WITHIN = 180

# What Cassandra's own start script opens of Java 17's modules.
EXPORTS = """
java.base/jdk.internal.misc java.base/jdk.internal.ref java.base/sun.nio.ch java.management.rmi/com.sun.jmx.remote.internal.rmi
java.rmi/sun.rmi.registry java.rmi/sun.rmi.server java.sql/java.sql java.rmi/sun.rmi.transport.tcp
java.base/java.lang.ref java.base/java.lang.reflect jdk.unsupported/sun.misc jdk.compiler/com.sun.tools.javac.file
""".split()
OPENS = """
java.base/java.lang.module java.base/jdk.internal.loader java.base/jdk.internal.ref java.base/jdk.internal.reflect
java.base/jdk.internal.math java.base/jdk.internal.module java.base/jdk.internal.util.jar java.base/sun.nio.ch
java.base/java.io java.base/java.lang java.base/java.lang.reflect java.base/java.util java.base/java.nio
jdk.management/com.sun.management.internal
""".split()

CONFIG = """
cluster_name: keyspan
num_tokens: 16
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
storage_port: {storage}
native_transport_port: {native}
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:{storage}"
commitlog_sync: periodic
commitlog_sync_period: 10000ms
auto_snapshot: false
materialized_views_enabled: true
"""

LOGBACK = """
<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>{folder}/log</file>
    <encoder><pattern>%-5level %logger{{0}} %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"""


def fetched():
    """The folder of Cassandra's jars."""
    jars = ROOT / "target" / "cassandra"
    if not list(jars.glob("cassandra-all-*.jar")):
        command = ["mvn", "-q", "-B", "-f", HERE / "pom.xml", "dependency:copy-dependencies"]
        subprocess.run([*command, "-DincludeScope=runtime", f"-DoutputDirectory={jars}"], check=True)
    return jars


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def cassandra():
    """A server without data; the port that CQL's clients connect to."""
    jars = fetched()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="keyspan-cassandra-"))
    storage, native = free_ports(2)
    (folder / "cassandra.yaml").write_text(CONFIG.format(storage=storage, native=native))
    (folder / "logback.xml").write_text(LOGBACK.format(folder=folder))
    command = ["java", "-Xms1g", "-Xmx2g", f"-javaagent:{glob.glob(f'{jars}/jamm-*.jar')[0]}"]
    command += [f"--add-exports={module}=ALL-UNNAMED" for module in EXPORTS]
    command += [f"--add-opens={module}=ALL-UNNAMED" for module in OPENS]
    command += [f"-Dcassandra.config=file://{folder}/cassandra.yaml", f"-Dcassandra.storagedir={folder}/data"]
    command += [f"-Dlogback.configurationFile=file://{folder}/logback.xml", "-Dcassandra.ring_delay_ms=1000"]
    command += ["-Dcassandra.skip_wait_for_gossip_to_settle=0", "-cp", f"{jars}/*"]
    command += ["org.apache.cassandra.service.CassandraDaemon"]
    with open(folder / "output", "w") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
    try:
        wait_for(process, native, folder)
        yield native
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(process, port, folder):
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    sys.stderr.write((folder / "output").read_text()[-4000:])
    raise RuntimeError("Cassandra did not start")
