#!/usr/bin/env bash
# Definitions of well-known projects as their Go modules have them, and samples of their
# objects that come with them.
# Expects: KUBECONFIG, and kubectl as KUBECTL; go fetches the modules.
source "$(cd "$(dirname "$0")" && pwd)/../lib.sh"
k() { "$KUBECTL" "$@"; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"

# The directory of a module.
module() {
  go mod download -json "$1" >"$work/module" || fail "no module $1: $(cat "$work/module")"
  jq -r .Dir "$work/module"
}

# define NAME FILES…: these definitions are accepted, established and served.
define() {
  local name="$1"; shift
  say "$name: $# definitions"
  # What a chart would fill in is not ours to know.
  for file in "$@"; do
    sed -e '/^ *{{/d' -e "s/'{{[^']*}}'/compat/" -e 's/{{[^}]*}}/compat/' "$file"; echo ---
  done >"$work/definitions.yaml"
  k apply --server-side -f "$work/definitions.yaml" >/dev/null
  k wait --for=condition=Established --timeout=20s -f "$work/definitions.yaml" >/dev/null
}

# take NAME FILES…: these objects are stored, and read back by their own schema.
take() {
  local name="$1"; shift
  local count=0
  for file in "$@"; do
    k apply --server-side --validate=strict --force-conflicts -f "$file" >/dev/null \
      || fail "$name: $file"
    k get -f "$file" -o yaml >/dev/null
    count=$((count + 1))
  done
  say "$name: $count files of samples"
}


dir="$(module github.com/cert-manager/cert-manager@v1.18.2)"
define cert-manager "$dir"/deploy/crds/crd-*.yaml
take cert-manager "$dir"/test/fixtures/cert-manager-resources.yaml

dir="$(module sigs.k8s.io/gateway-api@v1.3.0)"
define gateway-api "$dir"/config/crd/standard/gateway.*.yaml
k apply -f "$dir"/examples/standard/0-namespaces.yaml >/dev/null
take gateway-api "$dir"/examples/standard/{basic-http,http-filter,http-redirect,http-rewrite,grpc-filter,reference-grant,tls-basic,wildcard-tls-gateway}.yaml

dir="$(module github.com/prometheus-operator/prometheus-operator@v0.85.0)"
define prometheus-operator "$dir"/example/prometheus-operator-crd/monitoring.*.yaml
take prometheus-operator "$dir"/example/user-guides/getting-started/{example-app-pod-monitor,example-app-service-monitor,prometheus,prometheus-admin-api,prometheus-pod-monitor,prometheus-service-monitor}.yaml

dir="$(module github.com/argoproj/argo-cd/v3@v3.1.0)"
define argo-cd "$dir"/manifests/crds/*-crd.yaml
k create namespace argocd >/dev/null
take argo-cd "$dir"/docs/operator-manual/project.yaml

dir="$(module github.com/crossplane/crossplane/v2@v2.0.2)"
define crossplane "$dir"/cluster/crds/*.yaml
samples="$dir"/test/e2e/manifests
take crossplane "$samples"/apiextensions/composition/basic-{cluster,namespaced}/setup/{composition,definition}.yaml \
  "$samples"/pkg/provider/provider-initial.yaml

dir="$(module sigs.k8s.io/kueue@v0.14.0)"
define kueue "$dir"/config/components/crd/bases/*.yaml
take kueue "$dir"/cmd/kueueviz/examples/*-cluster-queues.yaml

say "$(k get crd -o name | wc -l) definitions, $(k api-resources --verbs=list -o name | wc -l) resources"
