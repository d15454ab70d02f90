//! Cross-origin resource sharing (CORS).

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ORIGIN,
};
use http::{HeaderMap, HeaderValue};
use regex::Regex;

const ALLOWED_METHODS: &str = "POST, GET, OPTIONS, PUT, DELETE, PATCH";
const ALLOWED_HEADERS: &str = "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, \
                       X-Requested-With, If-Modified-Since";

/// The origins that CORS allows: regular expressions, which match any part of an origin unless they
/// are anchored.
#[derive(Clone, Debug, Default)]
pub struct AllowedOrigins(Vec<Regex>);

impl AllowedOrigins {
    /// Compiles the expressions.
    ///
    /// # Errors
    /// If one is not a regular expression.
    pub fn new(allowed: &[String]) -> Result<Self, regex::Error> {
        let allowed = allowed.iter().map(|text| Regex::new(text));
        Ok(Self(allowed.collect::<Result<_, _>>()?))
    }

    /// The CORS response headers if the request's origin is allowed.
    pub(crate) fn response_headers(&self, headers: &HeaderMap) -> Option<HeaderMap> {
        if self.0.is_empty() {
            return None;
        }
        let origin = headers.get(ORIGIN)?;
        let text = origin.to_str().ok()?;
        if !self.0.iter().any(|allowed| allowed.is_match(text)) {
            return None;
        }
        let fixed = HeaderValue::from_static;
        Some(HeaderMap::from_iter([
            (ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()),
            (ACCESS_CONTROL_ALLOW_METHODS, fixed(ALLOWED_METHODS)),
            (ACCESS_CONTROL_ALLOW_HEADERS, fixed(ALLOWED_HEADERS)),
            (ACCESS_CONTROL_EXPOSE_HEADERS, fixed("Date")),
            (ACCESS_CONTROL_ALLOW_CREDENTIALS, fixed("true")),
        ]))
    }
}
