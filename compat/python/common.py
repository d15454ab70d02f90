"""What the scripts of this directory share."""

import time

from kubernetes import client, config

PATIENCE = 30


def connect():
    config.load_kube_config()
    return client.ApiClient()


def say(text):
    print(f"   {text}", flush=True)


def expect(found, expected):
    if found != expected:
        raise AssertionError(f"expected {expected!r}, got {found!r}")


def eventually(what, holds):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"within {PATIENCE} seconds it did not come true that {what}")
        time.sleep(0.05)


def refused(status, call, *words, **more):
    """The call must be refused with this status; returns the refusal."""
    try:
        call(*words, **more)
    except client.ApiException as refusal:
        expect(refusal.status, status)
        return refusal
    raise AssertionError(f"not refused with {status}")


def definition(plural, kind):
    """A CustomResourceDefinition whose objects may hold anything."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.compat.example.com"},
        "spec": {
            "group": "compat.example.com",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def define(api, plural, kind):
    """Makes a kind, and waits until it is served."""
    definitions = client.ApiextensionsV1Api(api)
    made = definitions.create_custom_resource_definition(definition(plural, kind))

    def established():
        read = definitions.read_custom_resource_definition(made.metadata.name)
        conditions = read.status.conditions if read.status else None
        return any(c.type == "Established" and c.status == "True" for c in conditions or [])

    eventually(f"{kind} is established", established)
