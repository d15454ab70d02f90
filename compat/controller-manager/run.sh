#!/usr/bin/env bash
# A real kube-controller-manager does the work of our own controllers, which are off.
set -euo pipefail
cd "$(dirname "$0")"
. ../lib.sh

scratch=$(mktemp -d)
openssl genrsa -out "$scratch/accounts.key" 2048 2>/dev/null
"$CONTROLLER_MANAGER" --kubeconfig "$KUBECONFIG" --leader-elect=false --secure-port=0 \
  --service-account-private-key-file="$scratch/accounts.key" >"$scratch/manager.log" 2>&1 &
manager=$!
trap 'kill $manager 2>/dev/null || true; rm -rf "$scratch"' EXIT

# until_so WHAT COMMAND…: like eventually, with more patience and a word about it.
until_so() {
  local what=$1 tries
  shift
  for tries in $(seq 1 300); do
    if "$@" >/dev/null 2>&1; then
      echo "ok   $what"
      return 0
    fi
    sleep 0.2
  done
  echo "FAIL $what"
  tail -20 "$scratch/manager.log"
  return 1
}
k() { "$KUBECTL" "$@"; }
# count N KIND [LABEL]
count() { [ "$(k get "$2" -n work --no-headers ${3:+-l "$3"} 2>/dev/null | wc -l)" = "$1" ]; }
gone() { ! k get "$@"; }
used() { [ "$(k get quota small -n work -o 'jsonpath={.status.used.configmaps}')" = "$1" ]; }
refused() { ! k create configmap two -n work 2>"$scratch/refused" && grep -q 'exceeded quota: small' "$scratch/refused"; }

k create namespace work
until_so "a namespace gets its account" k get serviceaccount default -n work
k create deployment web --image=example.test/web:1 --replicas=3 -n work
until_so "a deployment makes a replica set" count 1 replicasets
until_so "a replica set makes pods" count 3 pods app=web
k scale deployment web --replicas=1 -n work
until_so "scaling down takes pods away" count 1 pods app=web
k create job once --image=example.test/once:1 -n work
until_so "a job makes a pod" count 1 pods job-name=once
k delete deployment web -n work --cascade=background
until_so "garbage is collected" count 0 replicasets
until_so "and its garbage, too" count 0 pods app=web
k create quota small --hard=configmaps=2 -n work
until_so "a quota is counted" used 1
k create configmap one -n work
until_so "a quota refuses" refused
k delete namespace work --wait=false
until_so "a namespace goes" gone namespace work
