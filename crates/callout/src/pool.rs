//! One client for each way to somewhere.

use crate::connect::Connector;
use crate::trust::tls;
use crate::words::{Lost, lost};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use optik_apiserver::{Call, CallError, Caller, Reply};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The largest patch of the largest object fits several times.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How many calls to one place may be under way; more wait for their turn.
const TOGETHER_MAX: usize = 256;
/// How many connections to one place are kept for later.
const IDLE_MAX: usize = 25;
const IDLE_TIME_MAX: Duration = Duration::from_secs(90);
/// How many places are remembered; the one that was not called for longest is forgotten.
const PLACES_MAX: usize = 256;

/// Reaches webhooks over HTTPS.
#[derive(Clone, Debug, Default)]
pub struct HttpsCaller {
    places: Arc<Mutex<Places>>,
}

#[derive(Debug, Default)]
struct Places {
    known: BTreeMap<Key, Entry>,
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    place: Arc<Place>,
    last_called: u64,
}

/// What makes connections different.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    host: String,
    address: Option<String>,
    authorities: Bytes,
}

/// Somewhere that was called, with the connections that are still open.
#[derive(Debug)]
struct Place {
    client: Client<Connector, Full<Bytes>>,
    turns: Arc<Semaphore>,
}

impl Place {
    fn open(key: &Key) -> Result<Self, String> {
        let connector = Connector::new(key.address.clone(), tls(&key.authorities)?);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIME_MAX)
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE_MAX)
            .build(connector);
        Ok(Self {
            client,
            turns: Arc::new(Semaphore::new(TOGETHER_MAX)),
        })
    }
}

impl Places {
    fn find(&mut self, key: Key) -> Result<Arc<Place>, String> {
        self.clock += 1;
        if let Some(entry) = self.known.get_mut(&key) {
            entry.last_called = self.clock;
            return Ok(Arc::clone(&entry.place));
        }
        if self.known.len() >= PLACES_MAX {
            let longest = self.known.iter().min_by_key(|(_, entry)| entry.last_called);
            if let Some(key) = longest.map(|(key, _)| key.clone()) {
                self.known.remove(&key);
            }
        }
        let place = Arc::new(Place::open(&key)?);
        let entry = Entry {
            place: Arc::clone(&place),
            last_called: self.clock,
        };
        self.known.insert(key, entry);
        Ok(place)
    }
}

impl Caller for HttpsCaller {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Reply, CallError>> {
        let places = Arc::clone(&self.places);
        async move {
            let uri: Uri = call
                .url
                .parse()
                .map_err(|error| CallError::Unusable(format!("Unparsable URL: {error}")))?;
            let key = Key {
                host: uri.authority().map(ToString::to_string).unwrap_or_default(),
                address: call.address,
                authorities: call.authorities,
            };
            let place = {
                let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
                places.find(key).map_err(CallError::Unusable)?
            };
            let unanswered = |error: Lost| CallError::Unanswered(error.to_string());
            let _turn = place.turns.acquire().await;
            let request = request(uri, call.agent, call.body).map_err(unanswered)?;
            let answer = place.client.request(request).await;
            let answer = answer.map_err(|error| unanswered(lost(&error)))?;
            read(answer).await.map_err(unanswered)
        }
        .boxed()
    }
}

fn request(uri: Uri, agent: &'static str, body: Bytes) -> Result<Request<Full<Bytes>>, Lost> {
    const JSON: HeaderValue = HeaderValue::from_static("application/json");
    let request = Request::post(uri)
        .header(ACCEPT, JSON)
        .header(CONTENT_TYPE, JSON)
        .header(USER_AGENT, HeaderValue::from_static(agent));
    let request = request.body(Full::new(body));
    request.map_err(|error| Lost::Other(error.to_string()))
}

async fn read(answer: http::Response<hyper::body::Incoming>) -> Result<Reply, Lost> {
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
        Ok(error) => lost(&*error),
        Err(error) if error.is::<LengthLimitError>() => Lost::TooLong {
            max: ANSWER_BYTES_MAX,
        },
        Err(error) => Lost::Other(error.to_string()),
    })?;
    let content_type = head.headers.get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    Ok(Reply {
        status: head.status,
        content_type: content_type.unwrap_or_default().to_owned(),
        body: body.to_bytes(),
    })
}
