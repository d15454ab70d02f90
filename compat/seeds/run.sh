#!/usr/bin/env bash
# The examples of the documents this project began with, typed as they stand there:
# what resourceVersion promises, seen with curl, kubectl and etcdctl.
#
# Expects: SERVER (http://…, no credentials needed), KUBECONFIG, ETCD (host:port),
# and kubectl and etcdctl as KUBECTL and ETCDCTL.
here="$(cd "$(dirname "$0")" && pwd)"
source "$here/../lib.sh"

get() { curl -sS "$SERVER$1"; }
e() { "$ETCDCTL" --endpoints "$ETCD" "$@"; }
pod() { printf '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s"},"spec":{"containers":[{"name":"c","image":"nginx"}]}}' "$1"; }
send() { curl -sS -X "$1" -H 'Content-Type: application/json' --data-binary "$3" "$SERVER$2"; }

pods=/api/v1/namespaces/test/pods
send POST /api/v1/namespaces '{"metadata":{"name":"test"}}' >/dev/null

say "list: GET $pods"
list="$(get "$pods")"
equals "$(jq -r .kind <<<"$list")" PodList
equals "$(jq -r .apiVersion <<<"$list")" v1
rv="$(jq -r .metadata.resourceVersion <<<"$list")"
[[ "$rv" =~ ^[1-9][0-9]*$ ]] || fail "the list has no revision: $list"

say "watch from it: GET $pods?watch=1&resourceVersion=$rv"
watched="$(mktemp)"
trap 'rm -f "$watched" "$watched".*' EXIT
curl -sSN -D "$watched.head" "$SERVER$pods?watch=1&resourceVersion=$rv&timeoutSeconds=20" >"$watched" &
watcher=$!
foo="$(send POST "$pods" "$(pod foo)")"
changed="$(jq '.metadata.annotations = {seen: "yes"}' <<<"$foo")"
updated="$(send PUT "$pods/foo" "$changed")"
eventually grep -q MODIFIED "$watched"
kill "$watcher" 2>/dev/null || true
contains "$(cat "$watched.head")" "200 OK"
contains "$(tr '[:upper:]' '[:lower:]' <"$watched.head")" "transfer-encoding: chunked"
contains "$(cat "$watched.head")" "application/json"
equals "$(jq -r .type "$watched" | tr '\n' ' ')" "ADDED MODIFIED "
first="$(jq -r 'select(.type=="ADDED").object.metadata.resourceVersion' "$watched")"
second="$(jq -r 'select(.type=="MODIFIED").object.metadata.resourceVersion' "$watched")"
equals "$first" "$(jq -r .metadata.resourceVersion <<<"$foo")"
equals "$second" "$(jq -r .metadata.resourceVersion <<<"$updated")"
(( rv < first && first < second )) || fail "revisions do not grow: $rv $first $second"

say "resume: a watch from $first sees what came after it, once"
resumed="$(get "$pods?watch=1&resourceVersion=$first&timeoutSeconds=1")"
equals "$(jq -r .object.metadata.resourceVersion <<<"$resumed")" "$second"

say "bookmarks: &allowWatchBookmarks=true"
send POST "$pods" "$(pod bar)" >/dev/null
marked="$(get "$pods?watch=1&resourceVersion=$second&allowWatchBookmarks=true&timeoutSeconds=4")"
bookmark="$(jq -c 'select(.type=="BOOKMARK").object' <<<"$marked")"
equals "$(jq -r .kind <<<"$bookmark")" Pod
(( $(jq -r .metadata.resourceVersion <<<"$bookmark") > second )) || fail "the bookmark lags: $bookmark"
equals "$(jq -r '.metadata | keys | join(",")' <<<"$bookmark")" resourceVersion

say "two controllers read the same revision; the second to write is refused with 409"
a="$(get "$pods/foo")"
b="$(get "$pods/foo")"
equals "$(jq -r .metadata.resourceVersion <<<"$a")" "$(jq -r .metadata.resourceVersion <<<"$b")"
written="$(send PUT "$pods/foo" "$(jq '.metadata.labels = {by: "a"}' <<<"$a")")"
refused="$(send PUT "$pods/foo" "$(jq '.metadata.labels = {by: "b"}' <<<"$b")")"
equals "$(jq -r .metadata.labels.by <<<"$written")" a
equals "$(jq -r .code <<<"$refused")" 409
equals "$(jq -r .reason <<<"$refused")" Conflict
contains "$(jq -r .message <<<"$refused")" "the object has been modified; please apply your changes to the latest version and try again"

say "kubectl says the same of a stale file"
stale="$(jq '.metadata.labels = {by: "c"}' <<<"$b")"
if said="$("$KUBECTL" -n test replace -f - <<<"$stale" 2>&1)"; then
  fail "a stale file was accepted: $said"
fi
contains "$said" "the object has been modified; please apply your changes to the latest version and try again"

say "read again, change, write: the retry succeeds"
retried="$(send PUT "$pods/foo" "$(get "$pods/foo" | jq '.metadata.labels.by = "b"')")"
equals "$(jq -r .metadata.labels.by <<<"$retried")" b

say "a write that changes nothing takes no revision"
same="$(send PUT "$pods/foo" "$retried")"
equals "$(jq -r .metadata.resourceVersion <<<"$same")" "$(jq -r .metadata.resourceVersion <<<"$retried")"

say "kubectl apply -f nginx-deployment.yaml; kubectl get deployment -ojson | grep resourceVersion"
"$KUBECTL" apply -f "$here/nginx-deployment.yaml" >/dev/null
line="$("$KUBECTL" get deployment -ojson | grep '"resourceVersion": "[0-9]')"
shown="$(sed 's/[^0-9]//g' <<<"$line")"

say "e get /registry/deployments/default --prefix -w json --keys-only | jq '.kvs[].key|=@base64d'"
kept="$(e get /registry/deployments/default --prefix -w json --keys-only | jq '.kvs[].key|=@base64d')"
equals "$(jq -r '.kvs[0].key' <<<"$kept")" /registry/deployments/default/nginx-deployment
equals "$(jq -r '.kvs[0].mod_revision' <<<"$kept")" "$shown"

say "a revision that is not there yet: 504 with Retry-After"
future="$(curl -sS -D "$watched.head" "$SERVER$pods?resourceVersion=99999999")"
contains "$(head -1 "$watched.head")" 504
contains "$(tr '[:upper:]' '[:lower:]' <"$watched.head")" "retry-after: 1"
contains "$(jq -r .message <<<"$future")" "Too large resource version: 99999999"

say "a revision that is gone: 410"
now="$(get "$pods" | jq -r .metadata.resourceVersion)"
e compact "$now" >/dev/null
gone="$(get "$pods?watch=1&resourceVersion=$rv")"
equals "$(jq -r .type <<<"$gone")" ERROR
equals "$(jq -r .object.code <<<"$gone")" 410
contains "$(jq -r .object.message <<<"$gone")" "too old resource version: $rv"
past="$(get "$pods?resourceVersion=$rv&resourceVersionMatch=Exact")"
equals "$(jq -r .code <<<"$past")" 410

say "the answer to 410 is a fresh list, and a watch from there"
fresh="$(get "$pods" | jq -r .metadata.resourceVersion)"
equals "$(get "$pods?watch=1&resourceVersion=$fresh&timeoutSeconds=1")" ""

say "a watch in place of a list: state, bookmark, then what follows"
stream="$(get "$pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1")"
equals "$(jq -r .type <<<"$stream" | tr '\n' ' ')" "ADDED ADDED BOOKMARK "
equals "$(jq -r 'select(.type=="BOOKMARK").object.metadata.annotations["k8s.io/initial-events-end"]' <<<"$stream")" true

say "a deleted object is not found"
send DELETE "$pods/foo" '' >/dev/null
equals "$(get "$pods/foo" | jq -r .reason)" NotFound
