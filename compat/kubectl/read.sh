#!/usr/bin/env bash
# What kubectl shows: tables, other output forms, descriptions, explanations.
# Expects: KUBECONFIG, and kubectl as KUBECTL.
here="$(cd "$(dirname "$0")" && pwd)"
source "$here/../lib.sh"
k() { "$KUBECTL" "$@"; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# row TEXT…: the words of a line, one blank between them.
row() { tr -s ' ' | sed 's/ $//'; }

say "$(k version 2>/dev/null | head -1)"
k create namespace show >/dev/null
k config set-context --current --namespace=show >/dev/null
k apply -f - >/dev/null <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata: {name: thing, labels: {app: x}}
data: {k: "1", l: "2"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: x}}
spec:
  replicas: 2
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec: {containers: [{name: c, image: "nginx:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, labels: {app: x}}
spec: {containers: [{name: c, image: "nginx:1"}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: ExternalName, externalName: example.com}
YAML

say "get: tables"
equals "$(k get configmaps --no-headers | row | cut -d' ' -f1,2)" "thing 2"
contains "$(k get configmaps | row)" "NAME DATA AGE"
contains "$(k get deployments | row)" "NAME READY UP-TO-DATE AVAILABLE AGE"
contains "$(k get deployments -o wide | row)" "CONTAINERS IMAGES SELECTOR"
contains "$(k get deployments -o wide | row)" "c nginx:1 app=x"
contains "$(k get deployments --no-headers | row)" "web 0/2 0 0"
contains "$(k get pods | row)" "NAME READY STATUS RESTARTS AGE"
contains "$(k get pods | row)" "pod 0/1 Pending 0"
contains "$(k get pods -o wide | row)" "IP NODE NOMINATED NODE READINESS GATES"
contains "$(k get services | row)" "web ExternalName <none> example.com <none>"
contains "$(k get namespaces | row)" "show Active"
contains "$(k get pods,configmaps | row)" "configmap/thing 2"
contains "$(k get configmaps -A | row)" "NAMESPACE NAME DATA AGE"
contains "$(k get configmaps --show-labels | row)" "app=x"
contains "$(k get configmaps -L app | row)" "APP"
contains "$(k get all | row)" "deployment.apps/web 0/2"
contains "$(k get pods -l app=nope 2>&1)" "No resources found in show namespace."
equals "$(k get pods --field-selector metadata.name=pod --no-headers | wc -l | tr -d ' ')" 1

say "get: other forms"
equals "$(k get configmap thing -o name)" configmap/thing
equals "$(k get configmap thing -o jsonpath='{.data.l}')" 2
equals "$(k get configmap thing -o json | jq -r .data.k)" 1
contains "$(k get configmap thing -o yaml)" $'data:\n  k: "1"\n  l: "2"\nkind: ConfigMap'
contains "$(k get configmap -o custom-columns=N:.metadata.name,K:.data.k | row)" "thing 1"
equals "$(k get configmap thing -o go-template='{{.data.k}}')" 1
k create configmap another >/dev/null
equals "$(k get configmaps --sort-by=.metadata.name --no-headers | cut -d' ' -f1 | tr '\n' ' ')" "another thing "
equals "$(k get configmaps --chunk-size=1 --no-headers | wc -l | tr -d ' ')" 2
equals "$(k get --raw /api/v1/namespaces/show/configmaps/thing | jq -r .kind)" ConfigMap

say "get -w: rows as they change"
k get configmaps -w >"$work/watched" 2>/dev/null &
watcher=$!
eventually grep -q thing "$work/watched"
k create configmap later --from-literal=a=b >/dev/null
eventually grep -q later "$work/watched"
equals "$(grep -c NAME "$work/watched")" 1
kill "$watcher" 2>/dev/null || true
k get pods --watch-only -o name >"$work/names" 2>/dev/null &
watcher=$!
eventually sh -c "'$KUBECTL' label pod pod seen=\$(date +%s%N) --overwrite >/dev/null; grep -q pod/pod '$work/names'"
kill "$watcher" 2>/dev/null || true

say "describe"
contains "$(k describe configmap thing)" "Labels:       app=x"
contains "$(k describe deployment web)" "2 desired | 0 updated"
contains "$(k describe pod pod)" "Image:"
contains "$(k describe namespace show)" "Status:       Active"
contains "$(k describe service web)" "External Name:"

say "explain (WIRE-29)"
contains "$(k explain pods)" "Pod is a collection of containers that can run on a host."
contains "$(k explain pods.spec.containers)" "Entrypoint array."
contains "$(k explain deployment.spec.replicas)" "Number of desired pods."
contains "$(k explain deployment.spec --recursive)" "matchLabels"
contains "$(k explain hpa --api-version=autoscaling/v1)" "HorizontalPodAutoscaler"
contains "$(k explain pods.spec --output=plaintext-openapiv2)" "PodSpec is a description of a pod."
if said="$(k explain pods.nosuch 2>&1)"; then fail "explained: $said"; fi
contains "$said" "does not exist"

say "what there is"
contains "$(k api-resources | row)" "deployments deploy apps/v1 true Deployment"
contains "$(k api-resources --namespaced=false -o name)" nodes
contains "$(k api-resources --verbs=list --api-group=apps -o name)" statefulsets.apps
contains "$(k api-versions)" "rbac.authorization.k8s.io/v1"
contains "$(k cluster-info)" "is running at"

say "events"
k create -f - >/dev/null <<'YAML'
apiVersion: v1
kind: Event
metadata: {name: happened, namespace: show}
involvedObject: {kind: Pod, name: pod, namespace: show}
type: Warning
reason: Odd
message: something odd
count: 3
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
YAML
contains "$(k get events | row)" "Warning Odd pod/pod something odd"
contains "$(k events | row)" "Odd Pod/pod something odd"

say "wait (WIRE-74), rollout"
k wait pod/pod --for=jsonpath='{.status.phase}'=Pending --timeout=10s >/dev/null
if said="$(k wait pod/pod --for=condition=Ready --timeout=1s 2>&1)"; then fail "ready: $said"; fi
contains "$said" "timed out waiting for the condition"
if said="$(k rollout status deployment/web --timeout=1s 2>&1)"; then fail "rolled out: $said"; fi
contains "$(k rollout history deployment/web 2>&1)" "deployment.apps/web"
k patch deployment web --subresource=status --type=merge -p \
  '{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2}}' >/dev/null
contains "$(k rollout status deployment/web --timeout=10s)" "successfully rolled out"
contains "$(k get deployment web --no-headers | row)" "web 2/2 2 2"

say "what needs nodes says so"
# refuses TEXT WORDS…: the command fails and says this.
refuses() {
  local text="$1" said
  shift
  if said="$(timeout 20 "$KUBECTL" "$@" 2>&1 </dev/null)"; then fail "$* worked: $said"; fi
  contains "$said" "$text"
}
refuses 'pods "nosuch" not found' logs nosuch
refuses 'pods "nosuch" not found' exec nosuch -- ls
equals "$(k logs pod)" ""
refuses "pod pod does not have a host assigned" exec pod -- ls
refuses "pod pod does not have a host assigned" attach pod
refuses "pod is not running" port-forward pod 1:1
k create -f - >/dev/null <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: placed}
spec: {nodeName: somewhere, containers: [{name: c, image: "nginx:1"}]}
YAML
k patch pod placed --subresource=status --type=merge -p '{"status":{"phase":"Running"}}' >/dev/null
for words in "logs placed" "exec placed -- ls" "attach placed" "port-forward placed 0:80"; do
  # shellcheck disable=SC2086
  refuses 'nothing runs behind pod "placed": this control plane has no nodes' $words
done
say "top without metrics (WIRE-90)"
refuses "Metrics API not available" top pods
k delete pod placed --force --grace-period=0 >/dev/null 2>&1

k config set-context --current --namespace=default >/dev/null
k delete namespace show --timeout=30s >/dev/null
