//! A server under test, and the namespace of the benchmark on it.

use super::connection::BenchConnection;
use super::connector::{BenchConnector, JSON, Protocol};
use super::load::{WorkerJob, expect, run, send};
use super::object::{LABEL, PARTS, Template};
use super::options::NamedServer;
use super::pace::RequestPace;
use super::progress::BenchProgress;
use super::tally::BenchFault;
use super::timer::Timer;
use super::workload::create::{Create, ObjectNames};
use crate::error::BenchError;
use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

const FILL_WORKERS: usize = 32;
/// Long enough to fill a slow server; a limit for a server that does not respond.
const FILL_TIME_MAX: Duration = Duration::from_secs(600);
/// A server may need several requests to delete a large collection: each of them has a
/// deadline there.
const CLEAR_ATTEMPTS_MAX: usize = 30;

pub(crate) struct System {
    pub(crate) name: String,
    pub(crate) server: String,
    pub(crate) pid: Option<u32>,
    /// The version that the server reports.
    pub(crate) version: Value,
    pub(crate) connector: Arc<BenchConnector>,
    namespace: String,
}

impl System {
    /// Connects, reads the version, and creates the namespace.
    pub(crate) async fn prepare(
        named: &NamedServer,
        protocol: Protocol,
        suffix: &str,
    ) -> Result<Self, BenchError> {
        let access = named.source.read()?;
        let connector = Arc::new(BenchConnector::new(&access, protocol)?);
        let mut connection = connector.connection().await?;
        let version = connector.get(connector.uri("/version"));
        expect(&mut connection, version, StatusCode::OK)
            .await
            .map_err(|fault| cannot("ask for the version", &named.name, &fault))?;
        let system = Self {
            name: named.name.clone(),
            server: access.server.to_string(),
            pid: named.pid,
            version: serde_json::from_slice(connection.kept()).unwrap_or(Value::Null),
            connector,
            namespace: format!("optik-bench-{suffix}"),
        };
        system.make_namespace(&mut connection).await?;
        Ok(system)
    }

    async fn make_namespace(&self, connection: &mut BenchConnection) -> Result<(), BenchError> {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{}"}}}}"#,
            self.namespace
        );
        let uri = self.connector.uri("/api/v1/namespaces");
        let request = self
            .connector
            .request(Method::POST, uri, Some(JSON), body.into());
        expect(connection, request, StatusCode::CREATED)
            .await
            .map_err(|fault| cannot("make a namespace", &self.name, &fault))?;
        Ok(())
    }

    /// The collection of our objects, with a query that may be empty.
    pub(crate) fn collection(&self, query: &str) -> Uri {
        let path = format!("/api/v1/namespaces/{}/configmaps{query}", self.namespace);
        self.connector.uri(&path)
    }

    pub(crate) fn object(&self, name: &str, query: &str) -> Uri {
        self.collection(&format!("/{name}{query}"))
    }

    pub(crate) fn put(&self, uri: Uri, object: Bytes) -> Request<Bytes> {
        self.connector.request(Method::PUT, uri, Some(JSON), object)
    }

    pub(crate) fn delete(&self, uri: Uri) -> Request<Bytes> {
        self.connector
            .request(Method::DELETE, uri, None, Bytes::new())
    }

    /// Makes the objects [`ObjectNames::shared`] numbers from 0.
    pub(crate) async fn fill(
        self: &Arc<Self>,
        timer: &Timer,
        count: usize,
        data_bytes: usize,
    ) -> Result<(), BenchError> {
        let template = Arc::new(Template::new(data_bytes));
        let next = Arc::new(AtomicU64::new(0));
        let workers = FILL_WORKERS.min(count);
        let work = |_| {
            let names = ObjectNames::shared(&next, count as u64);
            Create::new(self, &template, names)
        };
        let works: Vec<_> = (0..workers).map(work).collect();
        let tally = self.flat_out(timer, works).await?;
        match tally.faults.0.into_values().next() {
            None => Ok(()),
            Some(kind) => Err(BenchError::from_message(format!(
                "cannot make objects on {}: {}",
                self.name, kind.sample
            ))),
        }
    }

    async fn flat_out<W: WorkerJob>(
        &self,
        timer: &Timer,
        works: Vec<W>,
    ) -> Result<super::tally::RequestTally, BenchError> {
        let pace = || RequestPace::closed(timer, FILL_TIME_MAX);
        run(
            &self.connector,
            timer,
            &BenchProgress::default(),
            works,
            pace,
        )
        .await
    }

    /// Deletes all objects of the benchmark.
    pub(crate) async fn clear(&self) -> Result<(), BenchError> {
        let parts = (0..PARTS).map(|part| self.clear_part(part));
        futures::future::try_join_all(parts).await?;
        Ok(())
    }

    async fn clear_part(&self, part: u64) -> Result<(), BenchError> {
        let uri = self.collection(&format!("?labelSelector={LABEL}%3D{part}"));
        let mut last = None;
        for _ in 0..CLEAR_ATTEMPTS_MAX {
            let mut connection = self.connector.connection().await?;
            let request = self.delete(uri.clone());
            let answer = send(&mut connection, request).await;
            last = Some(match answer {
                Ok(answer) if answer.status == StatusCode::OK => return Ok(()),
                Ok(answer) => {
                    let fault = BenchFault::status(answer.status, connection.kept());
                    if !answer.status.is_server_error() {
                        return Err(cannot("delete the objects", &self.name, &fault));
                    }
                    fault
                }
                Err(fault) => fault,
            });
        }
        let last = last.unwrap_or(BenchFault::Broken("no attempt".to_owned()));
        Err(cannot("delete the objects", &self.name, &last))
    }

    /// Deletes everything that the benchmark created.
    pub(crate) async fn remove(&self) -> Result<(), BenchError> {
        self.clear().await?;
        let mut connection = self.connector.connection().await?;
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        let request = self.delete(self.connector.uri(&path));
        let answer = send(&mut connection, request).await;
        let answer = answer.map_err(|fault| cannot("delete the namespace", &self.name, &fault))?;
        if answer.status.is_success() {
            return Ok(());
        }
        let fault = BenchFault::status(answer.status, connection.kept());
        Err(cannot("delete the namespace", &self.name, &fault))
    }
}

pub(crate) fn cannot(what: &str, name: &str, fault: &BenchFault) -> BenchError {
    BenchError::from_message(format!("cannot {what} on {name}: {fault}"))
}
