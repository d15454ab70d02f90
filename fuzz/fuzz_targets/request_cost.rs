//! Fuzz target for request cost: four times as many repetitions of any part of a request cost at
//! most eight times as much time and memory, and peak memory is bounded by the length of the
//! request.
#![no_main]

#[path = "request_cost/places.rs"]
mod places;

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use optik_apiserver::{ApiRequest, ApiServer, ResponseBody, User, run_crd_controller};
use optik_cost::{Cost, CostAllowance, CountingAllocator, measured};
use optik_store::{Options, Store};
use places::{Place, THINGS, places};
use std::fmt::Write as _;
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ALLOWANCE: CostAllowance = CostAllowance {
    held_bytes_per_byte: 1024,
    free_bytes: 16 << 20,
};
const REPEATED: usize = 200;
/// How often a cost is measured before it counts as too high: other processes disturb the
/// measurement.
const LOOKS: usize = 5;
const LOOKS_FOR_A_KIND: usize = 1_000_000;

struct World {
    runtime: Runtime,
    api: ApiServer,
    places: Vec<Place>,
}

impl World {
    /// With an object in every place.
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let store = Store::open(Options::ephemeral()).unwrap();
        let api = ApiServer::new(store.clone());
        runtime.block_on(api.bootstrap()).unwrap();
        runtime.spawn(run_crd_controller(api.clone(), store));
        let world = Self {
            runtime,
            api,
            places: places(),
        };
        for place in &world.places {
            world.fill(place);
        }
        world
    }

    fn fill(&self, place: &Place) {
        let Some(stored) = &place.stored else {
            return;
        };
        if place.collection == THINGS {
            self.wait_for_things();
        }
        let body = stored.to_string();
        let made = self.ask(request(&Method::POST, place.collection, JSON, body));
        assert_eq!(made, 201, "{}", place.collection);
    }

    /// Waits until the new CRD is served.
    fn wait_for_things(&self) {
        for _ in 0..LOOKS_FOR_A_KIND {
            if self.ask(request(&Method::GET, THINGS, JSON, String::new())) == 200 {
                return;
            }
            self.runtime.block_on(tokio::task::yield_now());
        }
        panic!("the kind is not served");
    }

    /// The status, after the whole response is read.
    fn ask(&self, request: ApiRequest) -> u16 {
        self.runtime.block_on(async {
            let response = self.api.handle(request).await;
            if let ResponseBody::Stream(mut pieces) = response.body {
                while pieces.next().await.is_some() {}
            }
            response.status.as_u16()
        })
    }
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(World::new)
}

const JSON: &str = "application/json";

fn request(method: &Method, url: &str, media_type: &'static str, body: String) -> ApiRequest {
    let mut request = ApiRequest::new(method, url);
    let media_type = HeaderValue::from_static(media_type);
    request.headers.insert("content-type", media_type);
    request.user = User::admin().into();
    request.body = Bytes::from(body);
    request
}

/// The content type of a body.
enum Way {
    Post(&'static str),
    /// To the object that is there.
    Patch(&'static str),
    /// To the object that is there.
    Put,
    /// In the query.
    Select(&'static str),
}

const WAYS: &[Way] = &[
    Way::Post(JSON),
    Way::Post("application/yaml"),
    Way::Post("application/vnd.kubernetes.protobuf"),
    Way::Patch("application/json-patch+json"),
    Way::Patch("application/merge-patch+json"),
    Way::Patch("application/strategic-merge-patch+json"),
    Way::Patch("application/apply-patch+yaml"),
    Way::Put,
    Way::Select("labelSelector"),
    Way::Select("fieldSelector"),
];

impl Way {
    fn request(&self, place: &Place, text: String) -> ApiRequest {
        let collection = place.collection;
        let name = place.stored.as_ref().map(|it| &it["metadata"]["name"]);
        let name = name.and_then(|it| it.as_str()).unwrap_or("a");
        let options = "dryRun=All&fieldManager=fuzz";
        let object = format!("{collection}/{name}?{options}");
        match *self {
            Self::Post(media_type) => request(
                &Method::POST,
                &format!("{collection}?{options}"),
                media_type,
                text,
            ),
            Self::Patch(media_type) => request(&Method::PATCH, &object, media_type, text),
            Self::Put => request(&Method::PUT, &object, JSON, text),
            Self::Select(by) => {
                let url = format!("{collection}?{by}={}", encoded(&text));
                request(&Method::GET, &url, JSON, String::new())
            }
        }
    }
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        let _ = write!(encoded, "%{byte:02X}");
        encoded
    })
}

struct Parts<'a> {
    place: u8,
    way: u8,
    head: &'a str,
    item: &'a str,
    tail: &'a str,
}

impl Parts<'_> {
    /// With `#` standing for the number of the item.
    fn request(&self, count: usize) -> ApiRequest {
        let items = (0..count).map(|at| self.item.replace('#', &at.to_string()));
        let text = format!("{}{}{}", self.head, items.collect::<String>(), self.tail);
        let places = &world().places;
        let way = &WAYS[usize::from(self.way) % WAYS.len()];
        way.request(&places[usize::from(self.place) % places.len()], text)
    }

    /// The length, and the least that it costs.
    fn cost(&self, count: usize, looks: usize) -> (usize, Cost) {
        let look = || {
            let request = self.request(count);
            let bytes = request.body.len() + request.query.len();
            let (_, cost) = measured(|| world().ask(request));
            (bytes, cost)
        };
        let (bytes, first) = look();
        let least = (1..looks).fold(first, |least, _| least.least(look().1));
        (bytes, least)
    }

    fn complaint(&self, looks: usize) -> Option<String> {
        let (_, small) = self.cost(REPEATED, looks);
        let (bytes, large) = self.cost(4 * REPEATED, looks);
        optik_cost::growth_violation(small, large, bytes as u64, ALLOWANCE)
    }
}

fuzz_target!(|input: (u8, u8, &str, &str, &str)| {
    let (place, way, head, item, tail) = input;
    let parts = Parts {
        place,
        way,
        head,
        item,
        tail,
    };
    if parts.complaint(1).is_some() {
        let complaint = parts.complaint(LOOKS);
        assert_eq!(complaint, None, "{:?}", parts.request(1));
    }
});
