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
# What the server publishes for others lies there.
elsewhere=metadata.namespace!=kube-system
equals "$(k get configmap -A --field-selector "$elsewhere" -o name)" ""
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

say "writes that merge"
k create namespace merging >/dev/null
m() { k -n merging "$@"; }
cat >"$work/web.yaml" <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "nginx:1"}
      - {name: side, image: "busybox:1"}
YAML
sed 's/nginx:1/nginx:2/' "$work/web.yaml" >"$work/newer.yaml"
web() { m get deployment web -o "jsonpath={$1}"; }
images='.spec.template.spec.containers[*].image'
managers() {
  m get deployment web --show-managed-fields -o json |
    jq -r '[.metadata.managedFields[] | "\(.manager) \(.operation) \(.subresource // "")"] | sort | .[]'
}
# differs SAID: what diff said is one image, and nothing was changed by it.
differs() {
  contains "$1" '+      - image: nginx:2'
  equals "$(web "$images")" "nginx:1 busybox:1"
}

say "apply, on the client's side, with validation (WIRE-28)"
contains "$(m apply -f "$work/web.yaml")" created
contains "$(m apply -f "$work/web.yaml")" unchanged
if said="$(m diff -f "$work/newer.yaml")"; then fail "diff found nothing"; fi
differs "$said"
m diff -f "$work/web.yaml" >/dev/null || fail "diff found something"
contains "$(m apply -f "$work/newer.yaml")" configured
equals "$(web "$images")" "nginx:2 busybox:1"
sed '/side/d' "$work/newer.yaml" | m apply -f - >/dev/null
equals "$(web "$images")" "nginx:2"

say "apply, on the server's side"
m apply --server-side -f "$work/web.yaml" >/dev/null
equals "$(web "$images")" "nginx:1 busybox:1"
equals "$(managers)" $'kubectl Apply \nkubectl-last-applied Apply '
if said="$(m diff --server-side -f "$work/newer.yaml")"; then fail "diff found nothing"; fi
differs "$said"
if said="$(m apply --server-side --field-manager=other -f "$work/newer.yaml" 2>&1)"; then
  fail "applied over another: $said"
fi
contains "$said" 'conflict with "kubectl": .spec.template.spec.containers[name="main"].image'
m apply --server-side --field-manager=other --force-conflicts -f "$work/newer.yaml" >/dev/null
equals "$(web "$images")" "nginx:2 busybox:1"

say "edit"
KUBE_EDITOR='sed -i s/nginx:2/nginx:3/' m edit deployment web >/dev/null
equals "$(web "$images")" "nginx:3 busybox:1"

say "patch"
m patch deployment web -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox:2"}]}}}}' >/dev/null
equals "$(web "$images")" "nginx:3 busybox:2"
m patch deployment web --type=merge -p '{"spec":{"paused":true}}' >/dev/null
equals "$(web .spec.paused)" true
m patch deployment web --type=json -p '[{"op":"remove","path":"/spec/paused"}]' >/dev/null
equals "$(web .spec.paused)" ""
m patch deployment web --subresource=status --type=merge -p '{"status":{"replicas":1}}' >/dev/null
equals "$(web .status.replicas)" 1
m patch deployment web --subresource=scale --type=merge -p '{"spec":{"replicas":3}}' >/dev/null
equals "$(web .spec.replicas)" 3

say "label, annotate"
m label deployment web tier=front >/dev/null
equals "$(web .metadata.labels.tier)" front
if said="$(m label deployment web tier=back 2>&1)"; then fail "overwritten: $said"; fi
m label --overwrite deployment web tier=back >/dev/null
equals "$(web .metadata.labels.tier)" back
m label deployment web tier- >/dev/null
equals "$(web .metadata.labels.tier)" ""
m annotate deployment web note=kept >/dev/null
equals "$(web .metadata.annotations.note)" kept

say "scale"
m scale deployment web --replicas=4 >/dev/null
equals "$(web .spec.replicas)" 4
# Scaling names no manager: it is called by its program.
contains "$(managers)" "$(basename "$KUBECTL") Update scale"
if said="$(m scale deployment web --current-replicas=9 --replicas=5 2>&1)"; then fail "scaled: $said"; fi
equals "$(web .spec.replicas)" 4
m create -f - >/dev/null <<<'{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db"},
  "spec":{"serviceName":"db","replicas":1,"selector":{"matchLabels":{"app":"db"}},
  "template":{"metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"name":"c","image":"db"}]}}}}'
m scale statefulset db --replicas=2 >/dev/null
equals "$(m get statefulset db -o jsonpath='{.spec.replicas}')" 2

say "replace"
m replace -f "$work/web.yaml" >/dev/null
equals "$(web "$images")" "nginx:1 busybox:1"
before="$(web .metadata.uid)"
m replace --force -f "$work/newer.yaml" >/dev/null
equals "$(web "$images")" "nginx:2 busybox:1"
[[ "$(web .metadata.uid)" != "$before" ]] || fail "replace --force kept the object"

say "set, rollout restart"
m set image deployment/web main=nginx:9 >/dev/null
equals "$(web "$images")" "nginx:9 busybox:1"
m set env deployment/web -c main A=B >/dev/null
equals "$(web '.spec.template.spec.containers[0].env[0].value')" B
m rollout restart deployment/web >/dev/null
[[ -n "$(web '.spec.template.metadata.annotations.kubectl\.kubernetes\.io/restartedAt')" ]] ||
  fail "not restarted"
k delete namespace merging --timeout=30s >/dev/null

say "who may what (WIRE-89): auth can-i, whoami, create token"
k create namespace access >/dev/null
a() { k -n access "$@"; }
equals "$(a auth can-i create pods)" yes
if said="$(a auth can-i create pods --as=kim 2>&1)"; then fail "kim may create pods: $said"; fi
contains "$said" no
contains "$(k auth whoami)" system:masters
a create serviceaccount robot >/dev/null
a create role reader --verb=get,list,watch --resource=pods,configmaps >/dev/null
a create rolebinding robot-reads --role=reader --serviceaccount=access:robot >/dev/null
robot=system:serviceaccount:access:robot
eventually sh -c "[ \"\$('$KUBECTL' -n access auth can-i list pods --as=$robot)\" = yes ]"
contains "$(a auth can-i --list --as="$robot" | tr -s ' ')" "configmaps [] [] [get list watch]"
cp "$KUBECONFIG" "$work/kubeconfig"
r() { KUBECONFIG="$work/kubeconfig" "$KUBECTL" --context robot -n access "$@"; }
token="$(a create token robot --duration=10m)"
KUBECONFIG="$work/kubeconfig" k config set-credentials robot --token="$token" >/dev/null
KUBECONFIG="$work/kubeconfig" k config set-context robot --cluster="$(k config view -o jsonpath='{.clusters[0].name}')" --user=robot >/dev/null
contains "$(r auth whoami)" "$robot"
r get pods >/dev/null 2>&1
if said="$(r get secrets 2>&1)"; then fail "the robot reads secrets: $said"; fi
contains "$said" "secrets is forbidden: User \"$robot\" cannot list resource \"secrets\" in API group \"\" in the namespace \"access\""
a create clusterrole seer --verb=get --resource=nodes --dry-run=client -o yaml | k auth reconcile -f - >/dev/null 2>&1
equals "$(k get clusterrole seer -o jsonpath='{.rules[0].verbs[0]}')" get
k delete clusterrole seer >/dev/null
k delete namespace access --timeout=30s >/dev/null
