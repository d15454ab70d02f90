#!/usr/bin/env bash
# kubectl as people use it, against a server just started.
# Expects: KUBECONFIG, and kubectl as KUBECTL.
here="$(cd "$(dirname "$0")" && pwd)"
source "$here/../lib.sh"
k() { "$KUBECTL" "$@"; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

say "$(k version 2>/dev/null | head -1)"

say "what is there from the beginning"
names="$(k get namespaces -o name | sort | tr '\n' ' ')"
equals "$names" "namespace/default namespace/kube-node-lease namespace/kube-public namespace/kube-system "
contains "$(k api-resources -o name)" deployments.apps

cat >"$work/all.yaml" <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata: {name: thing, labels: {app: x}}
data: {k: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: thing, labels: {app: x}}
type: Opaque
data: {k: MQ==}
---
apiVersion: v1
kind: Pod
metadata: {name: thing, labels: {app: x}}
spec: {containers: [{name: c, image: nginx}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: thing, labels: {app: x}}
spec:
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec: {containers: [{name: c, image: nginx}]}
YAML
kinds="configmap secret pod deployment"

say "create"
k create -f "$work/all.yaml" >/dev/null
k create -f - >/dev/null <<<'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"space"}}'
if said="$(k create -f "$work/all.yaml" 2>&1)"; then fail "created twice: $said"; fi
contains "$said" 'configmaps "thing" already exists'

for kind in $kinds; do
  say "$kind: get, list, watch, replace, wait, delete"
  equals "$(k get "$kind" thing -o jsonpath='{.metadata.name}')" thing
  equals "$(k get "$kind" -l app=x -o name | wc -l | tr -d ' ')" 1
  equals "$(k get "$kind" -A --field-selector metadata.name=thing -o name | wc -l | tr -d ' ')" 1
  k get "$kind" --watch --output-watch-events -o json >"$work/watched" 2>/dev/null &
  watcher=$!
  eventually grep -q ADDED "$work/watched"
  k get "$kind" thing -o json | jq '.metadata.labels.more = "yes"' | k replace -f - >/dev/null
  eventually grep -q MODIFIED "$work/watched"
  k wait "$kind/thing" --for=jsonpath='{.metadata.labels.more}'=yes --timeout=10s >/dev/null
  k wait "$kind/thing" --for=delete --timeout=30s >"$work/waited" 2>&1 &
  waiter=$!
  k delete "$kind" thing --wait >/dev/null
  wait "$waiter" || fail "wait --for=delete: $(cat "$work/waited")"
  eventually grep -q DELETED "$work/watched"
  kill "$watcher" 2>/dev/null || true
  if said="$(k get "$kind" thing 2>&1)"; then fail "still there: $said"; fi
  contains "$said" "NotFound"
done

say "namespace: get, list, watch, replace, wait, delete with what is in it"
k -n space create -f "$work/all.yaml" >/dev/null
k get namespace space -o json | jq '.metadata.labels.more = "yes"' | k replace -f - >/dev/null
k wait namespace/space --for=jsonpath='{.metadata.labels.more}'=yes --timeout=10s >/dev/null
k wait namespace/space --for=jsonpath='{.status.phase}'=Active --timeout=10s >/dev/null
k delete namespace space --wait --timeout=30s >/dev/null
equals "$(k get configmap -A -o name)" ""
if said="$(k delete namespace default 2>&1)"; then fail "default was deleted: $said"; fi
contains "$said" "this namespace may not be deleted"

say "create from the command line"
k create namespace quick >/dev/null
k -n quick create configmap c --from-literal=a=b >/dev/null
equals "$(k -n quick get configmap c -o jsonpath='{.data.a}')" b
k -n quick create secret generic s --from-literal=a=b >/dev/null
equals "$(k -n quick get secret s -o jsonpath='{.data.a}')" Yg==
k -n quick create deployment d --image=nginx --replicas=2 >/dev/null
equals "$(k -n quick get deployment d -o jsonpath='{.spec.replicas}')" 2
k -n quick run p --image=nginx >/dev/null
equals "$(k -n quick get pod p -o jsonpath='{.spec.containers[0].image}')" nginx
k -n quick create -f - >/dev/null <<<'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"gen-"}}'
k -n quick delete configmap --all >/dev/null
equals "$(k -n quick get configmap -o name)" ""
k delete namespace quick --timeout=30s >/dev/null
