"""The Python client, against the server that KUBECONFIG names."""

import os
import subprocess
import threading

import kubernetes
from common import connect, define, eventually, expect, refused, say
from kubernetes import client, dynamic, utils, watch

SPACE = "python"


def objects(core):
    say("create, read, patch, replace, conflict, delete")
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="thing", labels={"app": "x"}), data={"k": "1"})
    core.create_namespaced_config_map(SPACE, body)
    refused(409, core.create_namespaced_config_map, SPACE, body)
    stale = core.read_namespaced_config_map("thing", SPACE)
    patched = core.patch_namespaced_config_map("thing", SPACE, {"data": {"l": "2"}})
    expect(patched.data, {"k": "1", "l": "2"})
    json_patch = [{"op": "replace", "path": "/data/k", "value": "3"}]
    expect(core.patch_namespaced_config_map("thing", SPACE, json_patch).data["k"], "3")
    stale.data = {"k": "stale"}
    refusal = refused(409, core.replace_namespaced_config_map, "thing", SPACE, stale)
    assert "the object has been modified" in refusal.body, refusal.body
    gone = core.delete_namespaced_config_map("thing", SPACE)
    expect(gone.status, "Success")
    refused(404, core.read_namespaced_config_map, "thing", SPACE)


def pages(core):
    say("pages, selectors")
    for number in range(7):
        labels = {"odd": str(number % 2)}
        body = {"metadata": {"name": f"map-{number}", "labels": labels}}
        core.create_namespaced_config_map(SPACE, body)
    names, token = [], None
    while token != "":
        page = core.list_namespaced_config_map(SPACE, limit=3, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue or ""
    expect(names, [f"map-{number}" for number in range(7)])
    odd = core.list_namespaced_config_map(SPACE, label_selector="odd=1")
    expect(len(odd.items), 3)
    one = core.list_namespaced_config_map(SPACE, field_selector="metadata.name=map-5")
    expect(len(one.items), 1)


def watching(core):
    say("watch, resume, 410")
    start = core.list_namespaced_config_map(SPACE).metadata.resource_version
    seen, ended = [], threading.Event()

    def look():
        watcher = watch.Watch()
        stream = watcher.stream(core.list_namespaced_config_map, SPACE, resource_version=start, timeout_seconds=30)
        for event in stream:
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                watcher.stop()
        ended.set()

    threading.Thread(target=look, daemon=True).start()
    core.create_namespaced_config_map(SPACE, {"metadata": {"name": "watched"}})
    core.patch_namespaced_config_map("watched", SPACE, {"data": {"k": "1"}})
    core.delete_namespaced_config_map("watched", SPACE)
    eventually("the watch has ended", ended.is_set)
    expect([kind for kind, name in seen if name == "watched"], ["ADDED", "MODIFIED", "DELETED"])

    # A watch that ends by itself is taken up again by the client.
    watcher, first = watch.Watch(), None
    for event in watcher.stream(core.list_namespaced_config_map, SPACE, resource_version=start, timeout_seconds=1):
        first = first or event["type"]
    expect(first, "ADDED")

    now = core.list_namespaced_config_map(SPACE).metadata.resource_version
    etcdctl = [os.environ["ETCDCTL"], "--endpoints", os.environ["ETCD"]]
    subprocess.run([*etcdctl, "compact", now], check=True, stdout=subprocess.DEVNULL)

    def the_past():
        for event in watch.Watch().stream(core.list_namespaced_config_map, SPACE, resource_version=start):
            raise AssertionError(event)

    expect("too old resource version" in refused(410, the_past).reason, True)


def custom(api):
    say("custom resources, by CustomObjectsApi and by the dynamic client")
    define(api, "gizmos", "Gizmo")
    gizmos = client.CustomObjectsApi(api)
    where = ("compat.example.com", "v1", SPACE, "gizmos")
    body = {"apiVersion": "compat.example.com/v1", "kind": "Gizmo", "metadata": {"name": "one"}, "spec": {"size": 1}}
    gizmos.create_namespaced_custom_object(*where, body)
    patched = gizmos.patch_namespaced_custom_object(*where, "one", {"spec": {"size": 2}})
    expect((patched["spec"]["size"], patched["metadata"]["generation"]), (2, 2))
    status = gizmos.patch_namespaced_custom_object_status(*where, "one", {"status": {"ready": True}})
    expect((status["status"]["ready"], status["metadata"]["generation"]), (True, 2))

    found = dynamic.DynamicClient(api)
    resource = found.resources.get(api_version="compat.example.com/v1", kind="Gizmo")
    expect(resource.get(name="one", namespace=SPACE).spec.size, 2)
    applied = {**body, "spec": {"colour": "red"}}
    applied = resource.server_side_apply(body=applied, namespace=SPACE, field_manager="python")
    expect((applied.spec.size, applied.spec.colour), (2, "red"))
    deployments = found.resources.get(api_version="apps/v1", kind="Deployment")
    expect(deployments.get(namespace=SPACE).items, [])
    kinds = [event["type"] for event in resource.watch(namespace=SPACE, timeout=1)]
    expect(kinds, ["ADDED"])


def from_yaml(api):
    say("create_from_yaml")
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    utils.create_from_yaml(api, yaml_objects=[body], namespace=SPACE)
    apps = client.AppsV1Api(api)
    scale = apps.read_namespaced_deployment_scale("web", SPACE)
    expect(scale.spec.replicas, 2)
    apps.patch_namespaced_deployment_scale("web", SPACE, {"spec": {"replicas": 3}})
    expect(apps.read_namespaced_deployment("web", SPACE).spec.replicas, 3)


def main():
    api = connect()
    version = client.VersionApi(api).get_code()
    say(f"kubernetes {kubernetes.__version__} finds {version.git_version}")
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": SPACE}})
    objects(core)
    pages(core)
    watching(core)
    custom(api)
    from_yaml(api)
    core.delete_namespace(SPACE)
    eventually("the namespace is gone", lambda: SPACE not in [n.metadata.name for n in core.list_namespace().items])


main()
