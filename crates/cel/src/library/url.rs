//! The URL library: URLs, parsed like Go's `net/url`.

use super::{OpaqueValue, args};
use crate::value::{EvalError, MapKey, MapValue, Result, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A URL as Go's `url.ParseRequestURI` accepts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CelUrl {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl CelUrl {
    /// Parses an absolute URI or an absolute path; otherwise returns the error message.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        let failed = |why: &str| {
            let shown = optik_object::quote(text);
            Err(format!("parse {shown}: {why}"))
        };
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return failed("net/url: invalid control character in URL");
        }
        if text.is_empty() {
            return failed("empty url");
        }
        if text == "*" {
            return Ok(Self {
                scheme: String::new(),
                host: String::new(),
                path: "*".into(),
                query: String::new(),
            });
        }
        let (scheme, rest) = match scheme_of(text) {
            Ok(found) => found,
            Err(why) => return failed(why),
        };
        let (rest, _) = rest.split_once('#').unwrap_or((rest, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') && !scheme.is_empty() {
            // Opaque URL, for example `mailto:a@b`.
            return Ok(Self {
                scheme,
                host: String::new(),
                path: String::new(),
                query: query.into(),
            });
        }
        if !rest.starts_with('/') {
            return failed("invalid URI for request");
        }
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() || !rest.starts_with('/') => {
                let end = rest.find('/').unwrap_or(rest.len());
                (&rest[..end], &rest[end..])
            }
            _ => ("", rest),
        };
        let host = match host.rsplit_once('@') {
            Some((_, host)) => host,
            None => host,
        };
        if let Err(why) = check_host(host) {
            return failed(&why);
        }
        if let Err(why) = check_escapes(path) {
            return failed(&why);
        }
        Ok(Self {
            scheme,
            host: unescape(host),
            path: path.into(),
            query: query.into(),
        })
    }

    fn hostname(&self) -> &str {
        let (host, _) = split_port(&self.host);
        let host = host.strip_prefix('[').unwrap_or(host);
        host.strip_suffix(']').unwrap_or(host)
    }

    fn port(&self) -> &str {
        split_port(&self.host).1
    }

    fn escaped_path(&self) -> String {
        let mut out = String::with_capacity(self.path.len());
        for c in self.path.chars() {
            let plain = c.is_ascii_alphanumeric() || "-_.~$&+,/:;=@!'()*[]%".contains(c);
            if plain {
                out.push(c);
            } else {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    out.push_str(&format!("%{byte:02X}"));
                }
            }
        }
        out
    }
}

fn scheme_of(text: &str) -> std::result::Result<(String, &str), &'static str> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            '0'..='9' | '+' | '-' | '.' => return Ok((String::new(), text)),
            ':' if at == 0 => return Err("missing protocol scheme"),
            ':' => return Ok((text[..at].to_ascii_lowercase(), &text[at + 1..])),
            _ => return Ok((String::new(), text)),
        }
    }
    Ok((String::new(), text))
}

fn split_port(host: &str) -> (&str, &str) {
    match host.rfind(':') {
        Some(at) if !host[at..].contains(']') => (&host[..at], &host[at + 1..]),
        _ => (host, ""),
    }
}

fn check_host(host: &str) -> std::result::Result<(), String> {
    if host.starts_with('[') {
        let Some(end) = host.rfind(']') else {
            return Err("missing ']' in host".into());
        };
        return check_port(&host[end + 1..]);
    }
    if let Some(at) = host.rfind(':') {
        check_port(&host[at..])?;
    }
    let bad = |c: char| c == ' ' || "\"<>\\^`{|}".contains(c);
    if let Some(c) = host.chars().find(|c| bad(*c)) {
        let shown = optik_object::quote(&c.to_string());
        return Err(format!("invalid character {shown} in host name"));
    }
    check_escapes(host)
}

fn check_port(port: &str) -> std::result::Result<(), String> {
    let good = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => port.is_empty(),
    };
    if good {
        return Ok(());
    }
    let shown = optik_object::quote(port);
    Err(format!("invalid port {shown} after host"))
}

fn check_escapes(text: &str) -> std::result::Result<(), String> {
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
        if *byte == b'%' && !(hex(at + 1) && hex(at + 2)) {
            let end = (at + 3).min(bytes.len());
            let shown = String::from_utf8_lossy(&bytes[at..end]);
            let shown = optik_object::quote(&shown);
            return Err(format!("invalid URL escape {shown}"));
        }
    }
    Ok(())
}

fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = text
            .get(at + 1..at + 3)
            .filter(|_| bytes[at] == b'%')
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        match code {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub(crate) fn url<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text) => {
        let url = CelUrl::parse(text.as_str());
        url.map(|url| Value::opaque(OpaqueValue::Url(url))).map_err(|why| {
            EvalError::new(format!("URL parse error during conversion from string: {why}"))
        })
    })
}

pub(crate) fn is_url<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text) => Ok(Value::Bool(CelUrl::parse(text.as_str()).is_ok())))
}

fn url_component<'a>(args: &[Value<'a>], of: impl Fn(&CelUrl) -> String) -> Result<Value<'a>> {
    match args {
        [Value::Opaque(thing)] => match &**thing {
            OpaqueValue::Url(url) => Ok(Value::string(of(url))),
            _ => Err(EvalError::no_overload()),
        },
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn scheme<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    url_component(args, |url| url.scheme.clone())
}

pub(crate) fn host<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    url_component(args, |url| url.host.clone())
}

pub(crate) fn hostname<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    url_component(args, |url| url.hostname().to_owned())
}

pub(crate) fn port<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    url_component(args, |url| url.port().to_owned())
}

pub(crate) fn escaped_path<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    url_component(args, CelUrl::escaped_path)
}

pub(crate) fn query<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::Opaque(thing)] = args else {
        return Err(EvalError::no_overload());
    };
    let OpaqueValue::Url(url) = &**thing else {
        return Err(EvalError::no_overload());
    };
    let mut found: BTreeMap<MapKey, Vec<Value<'a>>> = BTreeMap::new();
    for pair in url.query.split('&') {
        if pair.is_empty() || pair.contains(';') {
            continue;
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if check_escapes(name).is_err() || check_escapes(value).is_err() {
            continue;
        }
        let plain = |text: &str| unescape(&text.replace('+', " "));
        let key = MapKey::String(plain(name).into());
        found
            .entry(key)
            .or_default()
            .push(Value::string(plain(value)));
    }
    let found = found
        .into_iter()
        .map(|(key, values)| (key, Value::list(values)));
    Ok(Value::Map(MapValue::Owned(Arc::new(found.collect()))))
}
