"""A kopf operator at work on the server that KUBECONFIG names."""

import os
import pathlib
import signal
import subprocess
import sys

from common import connect, define, eventually, expect, refused, say
from kubernetes import client

SPACE = "kopf"
WHERE = ("compat.example.com", "v1", SPACE, "otters")
HANDLERS = pathlib.Path(__file__).with_name("operator_handlers.py")


def life(api):
    core, otters = client.CoreV1Api(api), client.CustomObjectsApi(api)

    def otter():
        return otters.get_namespaced_custom_object(*WHERE, "olli")

    def pool():
        return core.read_namespaced_config_map("pool-olli", SPACE)

    say("create: a finalizer, a child that belongs to it, a status, an event")
    body = {"apiVersion": "compat.example.com/v1", "kind": "Otter", "metadata": {"name": "olli"}, "spec": {"colour": "brown"}}
    made = otters.create_namespaced_custom_object(*WHERE, body)
    eventually("it is handled", lambda: otter().get("status", {}).get("created") == {"pool": "pool-olli"})
    expect(otter()["metadata"]["finalizers"], ["compat.example.com/otter"])
    expect(pool().metadata.owner_references[0].uid, made["metadata"]["uid"])
    eventually("the event is there", lambda: "Swims" in [e.reason for e in core.list_namespaced_event(SPACE).items])

    say("update: the field that changed")
    otters.patch_namespaced_custom_object(*WHERE, "olli", {"spec": {"colour": "grey"}})
    eventually("it is handled", lambda: otter()["status"].get("was") == "brown")
    expect(pool().data["colour"], "grey")

    say("timers")
    eventually("the timer has run", lambda: otter()["status"].get("counted") == 2)

    say("delete: the finalizer goes when its handler is done")
    otters.delete_namespaced_custom_object(*WHERE, "olli")
    eventually("it is gone", lambda: not otters.list_namespaced_custom_object(*WHERE)["items"])
    refused(404, otter)
    core.read_namespaced_config_map("gone-olli", SPACE)


def main():
    api = connect()
    client.CoreV1Api(api).create_namespace({"metadata": {"name": SPACE}})
    define(api, "otters", "Otter")
    log = open(os.environ["LOG"], "w")
    words = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", SPACE, str(HANDLERS)]
    operator = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        life(api)
        operator.send_signal(signal.SIGTERM)
        expect(operator.wait(timeout=30), 0)
    except BaseException:
        log.flush()
        print(pathlib.Path(log.name).read_text())
        raise
    finally:
        operator.kill()


main()
