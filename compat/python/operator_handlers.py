"""An operator written with kopf: an Otter has a ConfigMap of its own."""

import kopf
from kubernetes import client, config

WHERE = ("compat.example.com", "v1", "otters")


@kopf.on.startup()
def start(settings, **_):
    config.load_kube_config()
    settings.persistence.finalizer = "compat.example.com/otter"
    settings.posting.level = 0


@kopf.index(*WHERE)
def by_colour(spec, name, **_):
    return {spec.get("colour"): name}


@kopf.on.create(*WHERE)
def created(spec, name, namespace, body, **_):
    pool = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"pool-{name}"}, "data": {"colour": spec["colour"]}}
    kopf.adopt(pool)
    client.CoreV1Api().create_namespaced_config_map(namespace, pool)
    kopf.info(body, reason="Swims", message="it swims")
    return {"pool": f"pool-{name}"}


@kopf.on.update(*WHERE, field="spec.colour")
def recoloured(old, new, name, namespace, patch, by_colour: kopf.Index, **_):
    client.CoreV1Api().patch_namespaced_config_map(f"pool-{name}", namespace, {"data": {"colour": new}})
    patch.status["was"] = old


@kopf.on.delete(*WHERE)
def deleted(name, namespace, **_):
    client.CoreV1Api().create_namespaced_config_map(namespace, {"metadata": {"name": f"gone-{name}"}})


@kopf.timer(*WHERE, interval=0.2)
def counted(patch, status, **_):
    if status.get("counted", 0) < 2:
        patch.status["counted"] = status.get("counted", 0) + 1
