//! What a request is about, read off its method and URL.
//!
//! What is decided here about a path must be what is then done: `route` of the API takes
//! paths apart in the same way, and a test holds the two together.

use crate::attributes::{Attributes, Resource, What};
use optik_object::path_segment;
use optik_object::selector::FieldSelector;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// Longer paths are nobody's.
const PATH_BYTES_MAX: usize = 8 * 1024;
/// Parts of a namespace, which is otherwise full of other things.
const OF_NAMESPACES: [&str; 2] = ["status", "finalize"];

/// A path, decoded once.
#[derive(Clone, Debug)]
pub struct Path<'a> {
    text: Cow<'a, str>,
    /// Whether objects can be found by it at all.
    well_formed: bool,
}

impl<'a> Path<'a> {
    /// Never fails: what makes no sense is a path like any other.
    #[must_use]
    pub fn decode(sent: &'a str) -> Self {
        match percent_decode_str(sent).decode_utf8() {
            Ok(text) => Self {
                well_formed: sent.len() <= PATH_BYTES_MAX && !sent.starts_with("//"),
                text,
            },
            Err(_) => Self {
                text: sent.into(),
                well_formed: false,
            },
        }
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it can be read, and is no longer than anybody's.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        self.well_formed
    }

    /// The segments, one slash at the end forgiven. None of them is empty, but for the
    /// namespace: who leaves it out means all of them.
    #[must_use]
    pub fn segments(&self) -> Option<impl Iterator<Item = &str> + Clone> {
        let path = self.text.strip_prefix('/').filter(|_| self.well_formed)?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let parts = path.split('/');
        (!parts.clone().any(str::is_empty) || lacks_only_namespace(path)).then_some(parts)
    }
}

fn lacks_only_namespace(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let (["api", _, below @ ..] | ["apis", _, _, below @ ..]) = &parts[..] else {
        return false;
    };
    let below = below.strip_prefix(&["watch"]).unwrap_or(below);
    let empty = parts.iter().filter(|part| part.is_empty()).count();
    matches!(below, ["namespaces", "", _, ..]) && empty == 1
}

/// A request as far as its head says.
#[derive(Clone, Debug)]
pub struct RequestInfo<'a> {
    verb: Cow<'a, str>,
    what: What<'a>,
    /// The one name that a field selector lets pass.
    selected: Option<String>,
}

impl<'a> RequestInfo<'a> {
    #[must_use]
    pub fn read(method: &'a str, path: &'a Path<'_>, query: &str) -> Self {
        match place(path) {
            Some((place, forced)) => Self::of_objects(method, place, forced, query),
            None => Self {
                verb: lower_case(method),
                what: What::Path(path.text()),
                selected: None,
            },
        }
    }

    fn of_objects(method: &'a str, place: Resource<'a>, forced: bool, query: &str) -> Self {
        let collection = place.name.is_empty();
        let watched = || {
            let value = value(query, "watch");
            value.is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
        };
        let verb = match (method, collection) {
            _ if forced => "watch",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "deletecollection",
            ("DELETE", false) => "delete",
            ("GET" | "HEAD", false) => "get",
            ("GET" | "HEAD", true) if watched() => "watch",
            ("GET" | "HEAD", true) => "list",
            _ => "",
        };
        let selects = collection && !forced && matches!(verb, "list" | "watch");
        Self {
            verb: verb.into(),
            what: What::Resource(place),
            selected: if selects { selected_name(query) } else { None },
        }
    }

    #[must_use]
    pub fn attributes(&self) -> Attributes<'_> {
        let what = match (self.what, &self.selected) {
            (What::Resource(of), Some(name)) => What::Resource(Resource { name, ..of }),
            (what, _) => what,
        };
        Attributes {
            verb: &self.verb,
            what,
        }
    }

    /// The objects it is about, as the path names them; `None` for any other path.
    #[must_use]
    pub fn resource(&self) -> Option<Resource<'a>> {
        match self.what {
            What::Resource(of) => Some(of),
            What::Path(_) => None,
        }
    }

    #[must_use]
    pub fn verb(&self) -> &str {
        &self.verb
    }
}

/// The objects of a path, and whether it says that they are to be watched.
fn place<'a>(path: &'a Path<'_>) -> Option<(Resource<'a>, bool)> {
    let mut parts = path.segments()?;
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    let version = parts.next()?;
    let mut parts = parts.peekable();
    let mut forced = false;
    if parts.peek() == Some(&"watch") {
        // With nothing behind it, it is the name of a resource like any other.
        forced = parts.clone().nth(1).is_some();
        if forced {
            parts.next();
        }
    }
    let first = parts.next()?;
    let (second, third) = (parts.next(), parts.next());
    let mut of = Resource {
        group,
        version,
        ..Resource::default()
    };
    match (first, second, third) {
        ("namespaces", Some(namespace), Some(plural))
            if !OF_NAMESPACES.contains(&plural)
                || parts.peek().is_some()
                || namespace.is_empty() =>
        {
            of.namespace = namespace;
            of.resource = plural;
            of.name = parts.next().unwrap_or_default();
            of.subresource = parts.next().unwrap_or_default();
        }
        (resource, name, subresource) => {
            of.resource = resource;
            of.name = name.unwrap_or_default();
            of.subresource = subresource.unwrap_or_default();
            // A namespace counts as being inside itself.
            if resource == "namespaces" {
                of.namespace = of.name;
            }
        }
    }
    Some((of, forced))
}

fn lower_case(method: &str) -> Cow<'_, str> {
    match method {
        "GET" => "get".into(),
        "POST" => "post".into(),
        "PUT" => "put".into(),
        "PATCH" => "patch".into(),
        "DELETE" => "delete".into(),
        "HEAD" => "head".into(),
        "OPTIONS" => "options".into(),
        other => other.to_ascii_lowercase().into(),
    }
}

fn value<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    // Almost every query lacks the name asked for. A name in percent signs is still found,
    // by the slow way.
    if !query.contains(name) && !query.contains('%') {
        return None;
    }
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value)
}

fn selected_name(query: &str) -> Option<String> {
    let selector = value(query, "fieldSelector")?;
    let selector = FieldSelector::parse(&selector).ok()?;
    let name = selector.exact("metadata.name")?;
    (!name.is_empty() && path_segment(name).is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(method: &str, url: &str) -> String {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let path = Path::decode(path);
        let info = RequestInfo::read(method, &path, query);
        let Attributes { verb, what } = info.attributes();
        match what {
            What::Path(path) => format!("{verb} {path}"),
            What::Resource(of) => format!(
                "{verb}|{}|{}|{}|{}|{}|{}",
                of.group, of.version, of.namespace, of.resource, of.name, of.subresource
            ),
        }
    }

    #[test]
    fn requests_are_taken_apart() {
        for (method, url, expected) in [
            ("GET", "/api", "get /api"),
            ("GET", "/api/v1", "get /api/v1"),
            ("GET", "/apis/apps/v1/", "get /apis/apps/v1/"),
            ("POST", "/version", "post /version"),
            ("PROPFIND", "/x", "propfind /x"),
            ("GET", "/api/v1/pods", "list||v1||pods||"),
            ("HEAD", "/api/v1/pods", "list||v1||pods||"),
            ("PROPFIND", "/api/v1/pods", "||v1||pods||"),
            ("GET", "/api/v1/pods?watch=1", "watch||v1||pods||"),
            ("GET", "/api/v1/pods?watch=False", "list||v1||pods||"),
            ("GET", "/api/v1/watch/pods", "watch||v1||pods||"),
            ("GET", "/api/v1/watch", "list||v1||watch||"),
            (
                "GET",
                "/api/v1/watch/namespaces/n/pods/p",
                "watch||v1|n|pods|p|",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/pods/p?watch=1",
                "get||v1|n|pods|p|",
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/n/deployments/",
                "deletecollection|apps|v1|n|deployments||",
            ),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/n/deployments/d/scale",
                "patch|apps|v1|n|deployments|d|scale",
            ),
            (
                "PUT",
                "/api/v1/namespaces/n/finalize",
                "update||v1|n|namespaces|n|finalize",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/status",
                "get||v1|n|namespaces|n|status",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/status/x",
                "get||v1|n|status|x|",
            ),
            ("GET", "/api/v1/namespaces/n", "get||v1|n|namespaces|n|"),
            (
                "GET",
                "/api/v1/namespaces/n/pods/p/proxy/a/b",
                "get||v1|n|pods|p|proxy",
            ),
            (
                "GET",
                "/api/v1/pods?fieldSelector=metadata.name%3Dx",
                "list||v1||pods|x|",
            ),
            (
                "GET",
                "/api/v1/pods?watch&fieldSelector=a=b,metadata.name=x",
                "watch||v1||pods|x|",
            ),
            (
                "GET",
                "/api/v1/pods?fieldSelector=metadata.name!=x",
                "list||v1||pods||",
            ),
            (
                "GET",
                "/api/v1/pods?fieldSelector=metadata.name=a/b",
                "list||v1||pods||",
            ),
            (
                "DELETE",
                "/api/v1/pods?fieldSelector=metadata.name=x",
                "deletecollection||v1||pods||",
            ),
            // What is encoded is what it stands for, slashes included.
            (
                "GET",
                "/api/v1/namespaces/n%2Fsecrets/s",
                "get||v1|n|secrets|s|",
            ),
            ("GET", "/api/v1/%73ecrets", "list||v1||secrets||"),
            ("GET", "//api/v1/pods", "get //api/v1/pods"),
            ("GET", "/api//v1/pods", "get /api//v1/pods"),
            ("GET", "/api/v1/pods//", "get /api/v1/pods//"),
            // Of all namespaces, not of a document about the server.
            ("GET", "/api/v1/namespaces//pods", "list||v1||pods||"),
            ("GET", "/api/v1/namespaces//pods/p", "get||v1||pods|p|"),
            (
                "DELETE",
                "/apis/apps/v1/namespaces//deployments",
                "deletecollection|apps|v1||deployments||",
            ),
            ("GET", "/api/v1/watch/namespaces//pods", "watch||v1||pods||"),
            ("GET", "/api/v1/namespaces//status", "list||v1||status||"),
            (
                "GET",
                "/api/v1/namespaces//pods//x",
                "get /api/v1/namespaces//pods//x",
            ),
            ("GET", "/API/v1/pods", "get /API/v1/pods"),
            (
                "GET",
                "/healthz/../api/v1/pods",
                "get /healthz/../api/v1/pods",
            ),
            ("GET", "/api/v1/%ff", "get /api/v1/%ff"),
        ] {
            assert_eq!(told(method, url), expected, "{method} {url}");
        }
    }
}
