//! Command line options of `optik-bench api`.

use super::access::AccessSource;
use crate::error::BenchError;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

const CONNECTIONS: usize = 64;
const APPLY_CONNECTIONS: usize = 32;
const WATCH_WRITES_PER_SECOND: f64 = 100.0;
const ROUNDS_OF_A_COMPARISON: usize = 3;

pub(crate) const HELP: &str = "\
Examples:
  One server, whose address and credentials are in a kubeconfig:
    optik-bench api --kubeconfig admin.conf create get

  Two servers on this machine in one run, each workload three times in turn:
    optik-bench api --name optik --server https://127.0.0.1:6443 --token T \\
      --ca ca.crt --pid $(pidof optik) --against-name kube-apiserver \\
      --against-kubeconfig kind.conf --against-pid $(pidof kube-apiserver) \\
      --rounds 3 --json result.json create create-1 get update list watch apply

  How long requests take while 500 a second arrive, however slow the answers are:
    optik-bench api --kubeconfig admin.conf --rate 500 --seconds 30 update

Each server gets a namespace optik-bench-…, which is emptied after each workload and
deleted at the end. A kube-apiserver limits requests in flight and answers 429 beyond
that; these are counted as errors. To measure what it can do, start it with
  --max-requests-inflight=0 --max-mutating-requests-inflight=0
  --enable-priority-and-fairness=false

With --pid, list tells how far the memory of that process grew. Give list first, to a
server just started: memory that earlier requests have taken is not taken again.

Answers are asked for as plain JSON without compression. The exit code is 1 if more than
1 % of the requests of a workload went wrong, an update was lost, or an event was missing.";

#[derive(Debug, Args)]
pub(crate) struct ApiBench {
    /// What to measure, in this order
    #[arg(required = true, value_name = "WORKLOAD")]
    pub(crate) workloads: Vec<Workload>,
    /// How many connections requests come from [default: 64; apply: 32]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    connections: Option<usize>,
    /// How long each measurement takes
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
    /// Send this many requests a second, whether answers come or not
    ///
    /// Latency counts from the moment a request should have been sent, so that a
    /// server which stalls cannot hide it. Without it each connection sends its next
    /// request when the last was answered. For watch: writes a second, 100 if not given.
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,
    /// How often each workload is measured on each server [default: 1; 3 against another]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    rounds: Option<usize>,
    /// Speak HTTP/2 instead of HTTP/1.1
    #[arg(long)]
    pub(crate) http2: bool,
    /// How many requests share an HTTP/2 connection at the same time
    #[arg(long, value_name = "N", default_value_t = 8, requires = "http2", value_parser = at_least_one)]
    streams: usize,
    /// How many bytes of data each object has
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub(crate) object_bytes: usize,
    /// get: how many objects there are to choose from
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    pub(crate) get_objects: usize,
    /// conflict: how many objects all connections fight for
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one)]
    pub(crate) conflict_objects: usize,
    /// list: how many objects are listed
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = at_least_one)]
    pub(crate) list_objects: usize,
    /// list: how many bytes of data each of them has
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    pub(crate) list_object_bytes: usize,
    /// delete: how many objects are deleted, if the time suffices
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = at_least_one)]
    pub(crate) delete_objects: usize,
    /// watch: how many watches are open
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    pub(crate) watchers: usize,
    /// Also write everything as JSON to this file, or to stdout instead of the table
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    // At the end, because a heading holds for all options after it.
    #[command(flatten)]
    first: ServerArgs,
    #[command(flatten)]
    against: Against,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// Creates ConfigMaps
    Create,
    /// Creates ConfigMaps over one connection: how long one write takes
    #[value(name = "create-1")]
    #[serde(rename = "create-1")]
    CreateOne,
    /// Reads one of --get-objects ConfigMaps at random
    Get,
    /// Reads a ConfigMap of its own and writes it back changed: two requests, counted as one
    Update,
    /// The same on a few ConfigMaps that all share, again after each conflict; no update may be lost
    Conflict,
    /// Lists --list-objects ConfigMaps: from any state (resourceVersion=0) and from the newest
    List,
    /// Sends each of --rate writes a second to --watchers watches; no event may be missing
    Watch,
    /// Changes a field of a ConfigMap of its own by server-side apply
    Apply,
    /// Deletes ConfigMaps one by one
    Delete,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "The server")]
struct ServerArgs {
    /// Its address and our credentials
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "token", "ca"])]
    kubeconfig: Option<PathBuf>,
    /// Which context of the kubeconfig, if not the current one
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// Its address: https://… or http://…
    #[arg(long, value_name = "URL", required_unless_present = "kubeconfig")]
    server: Option<String>,
    /// The bearer token we show
    #[arg(long, value_name = "TOKEN", requires = "server")]
    token: Option<String>,
    /// The authority that signed its certificate, as PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "server",
        conflicts_with = "insecure_skip_tls_verify"
    )]
    ca: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long)]
    insecure_skip_tls_verify: bool,
    /// What to call it in the result
    #[arg(long, value_name = "NAME", default_value = "server")]
    name: String,
    /// Its process on this machine, whose memory is watched during list
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "A second server to compare with, in turn with the first")]
struct Against {
    /// Its address and our credentials
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["against_server", "against_token", "against_ca"])]
    against_kubeconfig: Option<PathBuf>,
    /// Which context of that kubeconfig, if not the current one
    #[arg(long, value_name = "NAME", requires = "against_kubeconfig")]
    against_context: Option<String>,
    /// Its address: https://… or http://…
    #[arg(long, value_name = "URL")]
    against_server: Option<String>,
    /// The bearer token we show
    #[arg(long, value_name = "TOKEN", requires = "against_server")]
    against_token: Option<String>,
    /// The authority that signed its certificate, as PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "against_server",
        conflicts_with = "against_insecure_skip_tls_verify"
    )]
    against_ca: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long)]
    against_insecure_skip_tls_verify: bool,
    /// What to call it in the result
    #[arg(long, value_name = "NAME", default_value = "against")]
    against_name: String,
    /// Its process on this machine, whose memory is watched during list
    #[arg(long, value_name = "PID")]
    against_pid: Option<u32>,
}

/// One of the servers, as the command line names it.
#[derive(Debug)]
pub(crate) struct NamedServer {
    pub(crate) name: String,
    pub(crate) source: AccessSource,
    pub(crate) pid: Option<u32>,
}

/// The settings of the run that the report repeats.
#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    seconds: u64,
    rounds: usize,
    connections: Option<usize>,
    rate: Option<f64>,
    protocol: &'static str,
    streams: usize,
    object_bytes: usize,
    get_objects: usize,
    conflict_objects: usize,
    list_objects: usize,
    list_object_bytes: usize,
    delete_objects: usize,
    watchers: usize,
}

impl ApiBench {
    /// The servers to measure: one, or two to compare.
    pub(crate) fn servers(&self) -> Result<Vec<NamedServer>, BenchError> {
        let (first, second) = (&self.first, &self.against);
        let mut servers = vec![NamedServer {
            name: first.name.clone(),
            source: AccessSource {
                kubeconfig: first.kubeconfig.clone(),
                context: first.context.clone(),
                server: first.server.clone(),
                token: first.token.clone(),
                ca: first.ca.clone(),
                insecure: first.insecure_skip_tls_verify,
            },
            pid: first.pid,
        }];
        if second.against_kubeconfig.is_some() || second.against_server.is_some() {
            servers.push(NamedServer {
                name: second.against_name.clone(),
                source: AccessSource {
                    kubeconfig: second.against_kubeconfig.clone(),
                    context: second.against_context.clone(),
                    server: second.against_server.clone(),
                    token: second.against_token.clone(),
                    ca: second.against_ca.clone(),
                    insecure: second.against_insecure_skip_tls_verify,
                },
                pid: second.against_pid,
            });
        }
        match servers.as_slice() {
            [one, two] if one.name == two.name => Err(BenchError::usage(
                "--name and --against-name must differ, or nobody can read the result",
            )),
            _ => Ok(servers),
        }
    }

    fn compares(&self) -> bool {
        self.against.against_kubeconfig.is_some() || self.against.against_server.is_some()
    }

    pub(crate) fn rounds(&self) -> usize {
        let usual = if self.compares() {
            ROUNDS_OF_A_COMPARISON
        } else {
            1
        };
        self.rounds.unwrap_or(usual)
    }

    /// How many requests may be under way at the same time.
    pub(crate) fn concurrency(&self, workload: Workload) -> usize {
        let connections = match workload {
            Workload::CreateOne => return 1,
            Workload::Apply => self.connections.unwrap_or(APPLY_CONNECTIONS),
            _ => self.connections.unwrap_or(CONNECTIONS),
        };
        connections * self.streams_per_connection()
    }

    pub(crate) fn streams_per_connection(&self) -> usize {
        if self.http2 { self.streams } else { 1 }
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    pub(crate) fn rate(&self) -> Option<f64> {
        self.rate
    }

    pub(crate) fn watch_rate(&self) -> f64 {
        self.rate.unwrap_or(WATCH_WRITES_PER_SECOND)
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            seconds: self.seconds,
            rounds: self.rounds(),
            connections: self.connections,
            rate: self.rate,
            protocol: if self.http2 { "HTTP/2" } else { "HTTP/1.1" },
            streams: self.streams_per_connection(),
            object_bytes: self.object_bytes,
            get_objects: self.get_objects,
            conflict_objects: self.conflict_objects,
            list_objects: self.list_objects,
            list_object_bytes: self.list_object_bytes,
            delete_objects: self.delete_objects,
            watchers: self.watchers,
        }
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("it must be a whole number".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && rate <= 1e6 => Ok(rate),
        _ => Err("it must be a number above 0, a million at most".to_owned()),
    }
}
