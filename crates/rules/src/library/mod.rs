//! The functions, by their names.

mod authorizer;
mod convert;
mod formats;
mod formatting;
mod lists;
mod net;
mod operators;
mod optional;
mod quantity;
mod regexes;
mod semver;
mod strings;
mod times;
mod url;

pub use authorizer::{Ask, Authorizer, Decision, Of, ResourceAsk};
pub(crate) use formats::{Format, names as formats};
pub(crate) use formatting::check as check_format;
pub(crate) use lists::insert;
pub(crate) use operators::{Arithmetic, arithmetic};
pub(crate) use quantity::Quantity;
pub(crate) use regexes::{Regex, compile as compile_regex, find, find_all};
pub(crate) use url::Url;

use crate::spend::Price;
use crate::types::Library;
use crate::value::{Fault, Result, Value};
use std::net::IpAddr;

/// No string or list that a function makes is larger.
pub(crate) const MADE_MAX: usize = 16 << 20;

/// A value of a library.
#[derive(Debug)]
pub enum Thing {
    Url(Url),
    Quantity(Quantity),
    Ip(IpAddr),
    Cidr(net::Cidr),
    Semver(::semver::Version),
    Format(&'static Format),
    Authorizer(authorizer::Asker),
    PathCheck(authorizer::Asker, String),
    GroupCheck(authorizer::Asker, String),
    ResourceCheck(authorizer::Asker, Box<ResourceAsk>),
    Decision(Decision),
}

impl Thing {
    pub(crate) const fn library(&self) -> Library {
        match self {
            Self::Url(_) => Library::Url,
            Self::Quantity(_) => Library::Quantity,
            Self::Ip(_) => Library::Ip,
            Self::Cidr(_) => Library::Cidr,
            Self::Semver(_) => Library::Semver,
            Self::Format(_) => Library::Format,
            Self::Authorizer(_) => Library::Authorizer,
            Self::PathCheck(..) => Library::PathCheck,
            Self::GroupCheck(..) => Library::GroupCheck,
            Self::ResourceCheck(..) => Library::ResourceCheck,
            Self::Decision(_) => Library::Decision,
        }
    }

    /// In bytes; one for what has no size.
    pub(crate) const fn size(&self) -> usize {
        match self {
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(cidr) => cidr.size(),
            _ => 1,
        }
    }

    pub(crate) const fn regex_chars(&self) -> u64 {
        match self {
            Self::Format(format) => format.regex_chars,
            _ => 0,
        }
    }
}

/// Runs a function on its arguments, the target first.
pub(crate) type Run = for<'a> fn(&[Value<'a>]) -> Result<Value<'a>>;

/// A function and what it costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) run: Run,
    pub(crate) price: Price,
}

const fn at(run: Run, price: Price) -> Option<Function> {
    Some(Function { run, price })
}

/// The function of a name; `None` for those that are part of the language.
pub(crate) fn find_function(name: &str) -> Option<Function> {
    if let Some(format) = name.strip_prefix("format.")
        && format != "named"
    {
        return at(formats::constant(format)?, Price::One);
    }
    match name {
        "size" => at(operators::size, Price::One),
        "type" => at(operators::type_of, Price::One),
        "dyn" => at(operators::same, Price::One),
        "@not_strictly_false" => at(operators::same, Price::One),
        "bool" => at(convert::to_bool, Price::One),
        "bytes" => at(convert::to_bytes, Price::Text(1.0)),
        "double" => at(convert::to_double, Price::One),
        "duration" => at(convert::to_duration, Price::One),
        "int" => at(convert::to_int, Price::One),
        "string" => at(convert::to_string, Price::One),
        "timestamp" => at(convert::to_timestamp, Price::One),
        "uint" => at(convert::to_uint, Price::One),
        "contains" => at(strings::contains, Price::Contained),
        "endsWith" => at(strings::ends_with, Price::Text(1.0)),
        "startsWith" => at(strings::starts_with, Price::Text(1.0)),
        "matches" => at(regexes::matches, Price::Regex),
        "find" => at(regexes::find_function, Price::Regex),
        "findAll" => at(regexes::find_all_function, Price::Regex),
        "charAt" => at(strings::char_at, Price::One),
        "indexOf" => at(lists::index_of, Price::Tree),
        "lastIndexOf" => at(lists::last_index_of, Price::Tree),
        "lowerAscii" => at(strings::lower, Price::Text(1.0)),
        "upperAscii" => at(strings::upper, Price::Text(1.0)),
        "replace" => at(strings::replace, Price::Text(2.0)),
        "split" => at(strings::split, Price::Text(2.0)),
        "substring" => at(strings::substring, Price::Text(1.0)),
        "trim" => at(strings::trim, Price::Text(1.0)),
        "format" => at(formatting::format, Price::Text(1.0)),
        "strings.quote" => at(strings::quote, Price::Text(1.0)),
        "join" => at(strings::join, Price::Result),
        "isSorted" => at(lists::is_sorted, Price::Tree),
        "sum" => at(lists::sum, Price::Tree),
        "max" => at(lists::max, Price::Tree),
        "min" => at(lists::min, Price::Tree),
        "slice" => at(lists::slice, Price::NewList),
        "flatten" => at(lists::flatten, Price::Flattened),
        "reverse" => at(lists::reverse, Price::NewList),
        "distinct" => at(lists::distinct, Price::EachOther(0)),
        "sort" => at(lists::sort, Price::EachOther(0)),
        crate::macros::SORT_BY_KEYS => at(lists::sort_by_keys, Price::EachOther(1)),
        "lists.range" => at(lists::range, Price::NewList),
        "first" => at(lists::first, Price::One),
        "last" => at(lists::last, Price::One),
        "sets.contains" => at(lists::sets_contains, Price::Sets(1.0)),
        "sets.equivalent" => at(lists::sets_equivalent, Price::Sets(2.0)),
        "sets.intersects" => at(lists::sets_intersects, Price::Sets(1.0)),
        crate::macros::MAP_INSERT => at(lists::map_insert, Price::One),
        name => find_more(name),
    }
}

fn find_more(name: &str) -> Option<Function> {
    match name {
        "optional.of" => at(optional::of, Price::One),
        "optional.ofNonZeroValue" => at(optional::of_non_zero, Price::One),
        "optional.none" => at(optional::none, Price::One),
        "optional.unwrap" | "unwrapOpt" => at(optional::unwrap, Price::One),
        "value" => at(optional::value, Price::One),
        "hasValue" => at(optional::has_value, Price::One),
        "url" => at(url::url, Price::Text(1.0)),
        "isURL" => at(url::is_url, Price::One),
        "getScheme" => at(url::scheme, Price::One),
        "getHost" => at(url::host, Price::One),
        "getHostname" => at(url::hostname, Price::One),
        "getPort" => at(url::port, Price::One),
        "getEscapedPath" => at(url::escaped_path, Price::One),
        "getQuery" => at(url::query, Price::One),
        "quantity" => at(quantity::quantity, Price::Text(1.0)),
        "isQuantity" => at(quantity::is_quantity, Price::Text(1.0)),
        "sign" => at(quantity::sign, Price::One),
        "isGreaterThan" => at(quantity::is_greater, Price::One),
        "isLessThan" => at(quantity::is_less, Price::One),
        "compareTo" => at(quantity::compare, Price::One),
        "asApproximateFloat" => at(quantity::as_float, Price::One),
        "asInteger" => at(quantity::as_integer, Price::One),
        "isInteger" => at(quantity::is_integer, Price::One),
        "add" => at(quantity::add, Price::One),
        "sub" => at(quantity::sub, Price::One),
        "ip" => at(net::ip, Price::Text(1.0)),
        "isIP" => at(net::is_ip, Price::Text(1.0)),
        "ip.isCanonical" => at(net::is_canonical, Price::Text(2.0)),
        "family" => at(net::family, Price::One),
        "isUnspecified" => at(net::is_unspecified, Price::One),
        "isLoopback" => at(net::is_loopback, Price::One),
        "isLinkLocalMulticast" => at(net::is_link_local_multicast, Price::One),
        "isLinkLocalUnicast" => at(net::is_link_local_unicast, Price::One),
        "isGlobalUnicast" => at(net::is_global_unicast, Price::One),
        "cidr" => at(net::cidr, Price::Text(1.0)),
        "isCIDR" => at(net::is_cidr, Price::Text(1.0)),
        "containsIP" => at(net::contains_ip, Price::ContainsIp),
        "containsCIDR" => at(net::contains_cidr, Price::ContainsCidr),
        "prefixLength" => at(net::prefix_length, Price::One),
        "masked" => at(net::masked, Price::One),
        "semver" => at(semver::semver, Price::Text(1.0)),
        "isSemver" => at(semver::is_semver, Price::Text(1.0)),
        "major" => at(semver::major, Price::One),
        "minor" => at(semver::minor, Price::One),
        "patch" => at(semver::patch, Price::One),
        "format.named" => at(formats::named, Price::One),
        "validate" => at(formats::validate, Price::Format),
        "jsonpatch.escapeKey" => at(strings::escape_key, Price::Text(1.0)),
        name => times::find(name).or_else(|| authorizer::find(name)),
    }
}

/// The arguments, if they are what a function takes.
macro_rules! args {
    ($args:expr, $($pattern:pat),+ => $result:expr) => {
        match $args {
            [$($pattern),+] => $result,
            _ => Err(crate::value::Fault::no_overload()),
        }
    };
}
pub(crate) use args;

/// A string that is not too large to be made.
pub(crate) fn bounded(size: usize) -> Result<()> {
    (size <= MADE_MAX).then_some(()).ok_or(Fault::TooExpensive)
}
