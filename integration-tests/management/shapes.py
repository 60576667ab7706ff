#!/usr/bin/env python3
"""Keys and types of every GET endpoint of the HTTP API, recorded and compared.

    shapes.py record --http http://127.0.0.1:15672 --amqp 127.0.0.1:5672 > rabbitmq.json
    shapes.py compare rabbitmq.json sluicemq.json

`record` sets a scene (virtual host, user, queues, bindings, policies, a client with a consumer),
asks every endpoint, writes down which keys its answer has and of which types, and clears the scene
away. `compare` lists what the first has and the second has not, or has otherwise; what is expected
to differ stands in `differences.yaml` with its reason. Exit code 1 when something else differs.
Needs Python 3.9 and pika.
"""
import argparse
import base64
import json
import pathlib
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

VHOST = "shapes"
USER = "shapes-user"


class Api:
    def __init__(self, url):
        self.url = url.rstrip("/")
        token = base64.b64encode(b"guest:guest").decode()
        self.headers = {"authorization": f"Basic {token}", "content-type": "application/json"}

    def send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self.headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def get(self, path):
        status, body = self.send("GET", path)
        try:
            return status, json.loads(body) if body else None
        except ValueError:
            return status, "(not JSON)"


def quoted(text):
    return urllib.parse.quote(text, safe="")


def set_scene(api, amqp):
    """Things of every kind, and a client that uses them. Answers the client's connection."""
    import pika

    v = quoted(VHOST)
    api.send("PUT", f"/api/vhosts/{v}", {"description": "d", "tags": "a,b"})
    api.send("PUT", f"/api/users/{USER}", {"password": "pw", "tags": "monitoring"})
    for user in ("guest", USER):
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        api.send("PUT", f"/api/permissions/{v}/{user}", rights)
    api.send("PUT", f"/api/topic-permissions/{v}/{USER}",
             {"exchange": "amq.topic", "write": "a", "read": "b"})
    api.send("PUT", f"/api/exchanges/{v}/x", {"type": "topic", "durable": True})
    api.send("PUT", f"/api/queues/{v}/classic", {"durable": True})
    api.send("PUT", f"/api/queues/{v}/quorum",
             {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    for queue in ("classic", "quorum"):
        api.send("POST", f"/api/bindings/{v}/e/x/q/{queue}", {"routing_key": "k", "arguments": {}})
    policy = {"pattern": "classic", "definition": {"max-length": 1000}, "apply-to": "queues"}
    api.send("PUT", f"/api/policies/{v}/p", policy)
    api.send("PUT", f"/api/operator-policies/{v}/o",
             {"pattern": "quorum", "definition": {"max-length": 900}, "apply-to": "queues"})
    api.send("PUT", f"/api/vhost-limits/{v}/max-queues", {"value": 100})
    api.send("PUT", f"/api/user-limits/{USER}/max-channels", {"value": 100})
    api.send("PUT", "/api/global-parameters/shapes", {"value": {"a": 1}})
    host, port = amqp.rsplit(":", 1)
    parameters = pika.ConnectionParameters(host, int(port), VHOST, client_properties={
        "connection_name": "shapes"})
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=2)
    for queue in ("classic", "quorum"):
        channel.basic_consume(queue, lambda *_: None)
    for _ in range(20):
        channel.basic_publish("x", "k", b"body", pika.BasicProperties(delivery_mode=2))
    # Statistics are collected every five seconds, and rates need two of them.
    deadline = time.monotonic() + 12
    while time.monotonic() < deadline:
        channel.basic_publish("x", "k", b"body")
        connection.process_data_events(0.5)
    return connection


def clear_scene(api, connection):
    connection.close()
    api.send("DELETE", f"/api/vhosts/{quoted(VHOST)}")
    api.send("DELETE", f"/api/users/{USER}")
    api.send("DELETE", "/api/global-parameters/shapes")


def endpoints(api):
    """Every GET endpoint: its name with placeholders, and its path here."""
    v = quoted(VHOST)
    node = quoted(api.get("/api/overview")[1]["node"])
    own = [c for c in api.get(f"/api/vhosts/{v}/connections")[1]]
    connection = quoted(own[0]["name"])
    channel = quoted(own[0]["name"] + " (1)")
    fixed = """overview cluster-name nodes extensions version whoami definitions parameters
        global-parameters policies operator-policies vhost-limits user-limits connections channels
        consumers exchanges queues queues/detailed bindings vhosts users users/without-permissions
        permissions topic-permissions feature-flags deprecated-features deprecated-features/used
        health/checks/alarms health/checks/local-alarms health/checks/virtual-hosts
        health/checks/node-is-quorum-critical health/checks/port-listener/{port}
        health/checks/protocol-listener/amqp health/checks/is-in-service
        health/checks/ready-to-serve-clients health/checks/below-node-connection-limit
        health/checks/reached-target-cluster-size
        health/checks/quorum-queues-without-elected-leaders/all-vhosts/
        health/checks/metadata-store/initialized auth/hash_password/pw config/effective
        nodes/{node} nodes/{node}/memory nodes/{node}/memory/relative auth/attempts/{node}
        auth/attempts/{node}/source healthchecks/node definitions/{vhost} policies/{vhost}
        policies/{vhost}/p operator-policies/{vhost} operator-policies/{vhost}/o
        vhost-limits/{vhost} user-limits/{user} connections/{connection}
        connections/{connection}/channels connections/username/guest vhosts/{vhost}/connections
        channels/{channel} vhosts/{vhost}/channels consumers/{vhost} exchanges/{vhost}
        exchanges/{vhost}/x exchanges/{vhost}/x/bindings/source
        exchanges/{vhost}/x/bindings/destination queues/{vhost} queues/{vhost}/classic
        queues/{vhost}/quorum queues/{vhost}/classic/bindings queues/quorum/{vhost}/quorum/status
        bindings/{vhost} bindings/{vhost}/e/x/q/classic bindings/{vhost}/e/x/q/classic/k
        vhosts/{vhost} vhosts/{vhost}/permissions vhosts/{vhost}/topic-permissions
        vhosts/{vhost}/deletion/protection users/{user} users/{user}/permissions
        users/{user}/topic-permissions permissions/{vhost}/{user} topic-permissions/{vhost}/{user}
        global-parameters/shapes aliveness-test/{vhost}
        queues?page=1&page_size=10 queues?disable_stats=true
        queues?disable_stats=true&enable_queue_totals=true
        queues/{vhost}/classic?msg_rates_age=60&msg_rates_incr=5&lengths_age=60&lengths_incr=5
        connections/{connection}?data_rates_age=60&data_rates_incr=5""".split()
    here = {"vhost": v, "node": node, "connection": connection, "channel": channel, "user": USER,
            "port": "5672"}
    return [(name, "/api/" + re.sub(r"\{(\w+)\}", lambda m: here[m[1]], name)) for name in fixed]


# Objects whose keys are data: names of nodes, of arguments, of headers.
MAPS = {"arguments", "client_properties", "headers", "cluster_state", "cluster_tags", "node_tags",
        "effective_policy_definition", "definition", "metrics_gc_queue_length",
        "messages_by_priority", "message_bytes_by_priority"}


def kind(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else "other"


def note(value, at, shape):
    """Notes the types of all fields, lists as one item that is all of theirs."""
    if isinstance(value, dict):
        shape.setdefault(at or ".", set()).add("object")
        if at.rsplit(".", 1)[-1] in MAPS:
            return
        for key, inner in value.items():
            note(inner, f"{at}.{key}" if at else key, shape)
    elif isinstance(value, list):
        shape.setdefault(at or ".", set()).add("array")
        for inner in value:
            note(inner, f"{at}[]", shape)
    else:
        shape.setdefault(at or ".", set()).add(kind(value))


def record(arguments):
    api = Api(arguments.http)
    connection = set_scene(api, arguments.amqp)
    recorded = {}
    try:
        for name, path in endpoints(api):
            status, answer = api.get(path)
            shape = {}
            note(answer, "", shape)
            recorded[name] = {"status": status,
                              "keys": {key: sorted(kinds) for key, kinds in sorted(shape.items())}}
            connection.process_data_events(0)
    finally:
        clear_scene(api, connection)
    json.dump(recorded, sys.stdout, indent=1, sort_keys=True)
    print()


def expected():
    """Lines `pattern: reason` of differences.yaml; a pattern may hold `*`."""
    patterns = []
    for line in (pathlib.Path(__file__).parent / "differences.yaml").read_text().splitlines():
        match = re.fullmatch(r"'([^']+)':\s*(.+)", line)
        if match:
            pattern = ".*".join(re.escape(part) for part in match[1].split("*"))
            patterns.append((re.compile(pattern + r"\Z"), match[2]))
    return patterns


def differences(theirs, ours):
    for name, wanted in sorted(theirs.items()):
        found = ours.get(name)
        if found is None:
            yield f"{name}", "is not asked"
            continue
        if wanted["status"] != found["status"]:
            yield f"{name} status", f"{wanted['status']} there, {found['status']} here"
            continue
        for key, kinds in wanted["keys"].items():
            here = found["keys"].get(key)
            if here is None:
                yield f"{name} {key}", f"{'/'.join(kinds)} there, missing here"
            elif not set(here) & set(kinds) and "null" not in set(here) | set(kinds):
                yield f"{name} {key}", f"{'/'.join(kinds)} there, {'/'.join(here)} here"


def compare(arguments):
    theirs = json.loads(pathlib.Path(arguments.theirs).read_text())
    ours = json.loads(pathlib.Path(arguments.ours).read_text())
    patterns = expected()
    surprises = known = 0
    for what, how in differences(theirs, ours):
        reason = next((reason for pattern, reason in patterns if pattern.match(what)), None)
        if reason is None:
            surprises += 1
            print(f"{what}: {how}")
        else:
            known += 1
            if arguments.all:
                print(f"{what}: {how} ({reason})")
    keys = sum(len(endpoint["keys"]) for endpoint in theirs.values())
    print(f"{len(theirs)} endpoints, {keys} keys: {known} known differences, {surprises} others")
    sys.exit(1 if surprises else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(required=True)
    recording = verbs.add_parser("record", help="ask a broker and write down its shapes")
    recording.add_argument("--http", default="http://127.0.0.1:15672")
    recording.add_argument("--amqp", default="127.0.0.1:5672")
    recording.set_defaults(run=record)
    comparing = verbs.add_parser("compare", help="what the first has and the second has not")
    comparing.add_argument("theirs")
    comparing.add_argument("ours")
    comparing.add_argument("--all", action="store_true", help="known differences, too")
    comparing.set_defaults(run=compare)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
