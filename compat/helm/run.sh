#!/usr/bin/env bash
# Helm, from install to uninstall.
# Expects: KUBECONFIG, and helm and kubectl as HELM and KUBECTL.
here="$(cd "$(dirname "$0")" && pwd)"
source "$here/../lib.sh"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export HELM_CACHE_HOME="$work/cache" HELM_CONFIG_HOME="$work/config" HELM_DATA_HOME="$work/data"
h() { "$HELM" --namespace helm "$@"; }
k() { "$KUBECTL" --namespace helm "$@"; }
say "$("$HELM" version --short)"

say "install: a definition, objects of it, a hook, and the release's Secret (WIRE-95)"
h install web "$here/chart" --create-namespace >/dev/null
equals "$(k get configmap web -o jsonpath='{.data.answer}')" 41
equals "$(k get gear web -o jsonpath='{.spec.teeth}')" 12
equals "$(k get configmap web-hook -o jsonpath='{.data.revision}')" 1
equals "$(k get secrets -l owner=helm -o jsonpath='{.items[*].type}')" helm.sh/release.v1
contains "$(h list)" deployed

say "upgrade"
h upgrade web "$here/chart" --set answer=42 >/dev/null
equals "$(k get configmap web -o jsonpath='{.data.answer}')" 42
contains "$(k get configmap web -o jsonpath='{.data.before}')" 41
equals "$(k get configmap web-hook -o jsonpath='{.data.revision}')" 2
contains "$(h get values web)" 'answer: 42'

say "history, rollback"
equals "$(h history web -o json | jq -c '[.[].status]')" '["superseded","deployed"]'
h rollback web 1 >/dev/null
equals "$(k get configmap web -o jsonpath='{.data.answer}')" 41
contains "$(h status web)" "REVISION: 3"

say "wait: done when the Deployment says so"
h upgrade web "$here/chart" --set replicas=1 --wait --timeout 60s >"$work/waited" 2>&1 &
waiter=$!
eventually sh -c "'$KUBECTL' -n helm get deployment web -o jsonpath='{.spec.replicas}' | grep -qx 1"
generation="$(k get deployment web -o jsonpath='{.metadata.generation}')"
k patch deployment web --subresource=status --type=merge -p "{\"status\":{\"observedGeneration\":$generation,
  \"replicas\":1,\"updatedReplicas\":1,\"readyReplicas\":1,\"availableReplicas\":1,
  \"conditions\":[{\"type\":\"Available\",\"status\":\"True\"},{\"type\":\"Progressing\",\"status\":\"True\",\"reason\":\"NewReplicaSetAvailable\"}]}}" >/dev/null
wait "$waiter" || fail "helm did not see that it is ready: $(cat "$work/waited")"

say "a dry run, a template that is wrong"
contains "$(h upgrade web "$here/chart" --dry-run=server --set answer=7)" 'answer: "7"'
if said="$(h install other "$here/chart" --set replicas=many 2>&1)"; then fail "installed: $said"; fi
h uninstall other >/dev/null

say "uninstall"
h uninstall web --wait --timeout 60s >/dev/null
equals "$(k get configmap,deployment,secret -o name | grep -v hook)" ""
