//! The CEL function library: the implementations of functions, by name.

mod authorizer;
mod conversions;
mod lists;
mod named_formats;
mod net;
mod operators;
mod optional;
mod quantity;
mod regexes;
mod semver;
mod string_format;
mod strings;
mod timestamps;
mod url;

pub use authorizer::{
    AuthorizerCheck, AuthorizerDecision, CelAuthorizer, CheckTarget, ResourceCheck,
};
pub(crate) use lists::insert;
pub(crate) use named_formats::{NamedFormat, names as formats};
pub(crate) use operators::{Arithmetic, arithmetic};
pub(crate) use quantity::CelQuantity;
pub(crate) use regexes::{Regex, compile as compile_regex, find, find_all};
pub(crate) use string_format::check_format;
pub(crate) use url::CelUrl;

use crate::runtime_cost::CallCost;
use crate::types::OpaqueType;
use crate::value::{EvalError, Result, Value};
use std::net::IpAddr;

/// Size limit of a string or list that a function produces.
pub(crate) const RESULT_BYTES_MAX: usize = 16 << 20;

/// A value of a type that a library adds.
#[derive(Debug)]
pub enum OpaqueValue {
    Url(CelUrl),
    Quantity(CelQuantity),
    Ip(IpAddr),
    Cidr(net::Cidr),
    Semver(::semver::Version),
    Format(&'static NamedFormat),
    Authorizer(authorizer::AuthorizerValue),
    PathCheck(authorizer::AuthorizerValue, String),
    GroupCheck(authorizer::AuthorizerValue, String),
    ResourceCheck(authorizer::AuthorizerValue, Box<ResourceCheck>),
    Decision(AuthorizerDecision),
}

impl OpaqueValue {
    pub(crate) const fn opaque_type(&self) -> OpaqueType {
        match self {
            Self::Url(_) => OpaqueType::Url,
            Self::Quantity(_) => OpaqueType::Quantity,
            Self::Ip(_) => OpaqueType::Ip,
            Self::Cidr(_) => OpaqueType::Cidr,
            Self::Semver(_) => OpaqueType::Semver,
            Self::Format(_) => OpaqueType::Format,
            Self::Authorizer(_) => OpaqueType::Authorizer,
            Self::PathCheck(..) => OpaqueType::PathCheck,
            Self::GroupCheck(..) => OpaqueType::GroupCheck,
            Self::ResourceCheck(..) => OpaqueType::ResourceCheck,
            Self::Decision(_) => OpaqueType::Decision,
        }
    }

    /// The size in bytes; 1 for values without a size.
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

/// The implementation of a function. The receiver is the first argument.
pub(crate) type FunctionImpl = for<'a> fn(&[Value<'a>]) -> Result<Value<'a>>;

/// A function and its cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) run: FunctionImpl,
    pub(crate) price: CallCost,
}

const fn priced(run: FunctionImpl, price: CallCost) -> Option<Function> {
    Some(Function { run, price })
}

/// Finds a function by name; `None` for functions that the evaluator itself implements.
pub(crate) fn find_function(name: &str) -> Option<Function> {
    if let Some(format) = name.strip_prefix("format.")
        && format != "named"
    {
        return priced(named_formats::format_constant(format)?, CallCost::Constant);
    }
    match name {
        "size" => priced(operators::size, CallCost::Constant),
        "type" => priced(operators::type_of, CallCost::Constant),
        "dyn" => priced(operators::identity, CallCost::Constant),
        "@not_strictly_false" => priced(operators::identity, CallCost::Constant),
        "bool" => priced(conversions::to_bool, CallCost::Constant),
        "bytes" => priced(conversions::to_bytes, CallCost::Text(1.0)),
        "double" => priced(conversions::to_double, CallCost::Constant),
        "duration" => priced(conversions::to_duration, CallCost::Constant),
        "int" => priced(conversions::to_int, CallCost::Constant),
        "string" => priced(conversions::to_string, CallCost::Constant),
        "timestamp" => priced(conversions::to_timestamp, CallCost::Constant),
        "uint" => priced(conversions::to_uint, CallCost::Constant),
        "contains" => priced(strings::contains, CallCost::Contained),
        "endsWith" => priced(strings::ends_with, CallCost::Text(1.0)),
        "startsWith" => priced(strings::starts_with, CallCost::Text(1.0)),
        "matches" => priced(regexes::matches, CallCost::Regex),
        "find" => priced(regexes::find_function, CallCost::Regex),
        "findAll" => priced(regexes::find_all_function, CallCost::Regex),
        "charAt" => priced(strings::char_at, CallCost::Constant),
        "indexOf" => priced(lists::index_of, CallCost::DeepSize),
        "lastIndexOf" => priced(lists::last_index_of, CallCost::DeepSize),
        "lowerAscii" => priced(strings::lower, CallCost::Text(1.0)),
        "upperAscii" => priced(strings::upper, CallCost::Text(1.0)),
        "replace" => priced(strings::replace, CallCost::Text(2.0)),
        "split" => priced(strings::split, CallCost::Text(2.0)),
        "substring" => priced(strings::substring, CallCost::Text(1.0)),
        "trim" => priced(strings::trim, CallCost::Text(1.0)),
        "format" => priced(string_format::format, CallCost::Text(1.0)),
        "strings.quote" => priced(strings::quote, CallCost::Text(1.0)),
        "join" => priced(strings::join, CallCost::Result),
        "isSorted" => priced(lists::is_sorted, CallCost::DeepSize),
        "sum" => priced(lists::sum, CallCost::DeepSize),
        "max" => priced(lists::max, CallCost::DeepSize),
        "min" => priced(lists::min, CallCost::DeepSize),
        "slice" => priced(lists::slice, CallCost::NewList),
        "flatten" => priced(lists::flatten, CallCost::Flattened),
        "reverse" => priced(lists::reverse, CallCost::NewList),
        "distinct" => priced(lists::distinct, CallCost::Pairwise(0)),
        "sort" => priced(lists::sort, CallCost::Pairwise(0)),
        crate::macros::SORT_BY_KEYS => priced(lists::sort_by_keys, CallCost::Pairwise(1)),
        "lists.range" => priced(lists::range, CallCost::NewList),
        "first" => priced(lists::first, CallCost::Constant),
        "last" => priced(lists::last, CallCost::Constant),
        "sets.contains" => priced(lists::sets_contains, CallCost::Sets(1.0)),
        "sets.equivalent" => priced(lists::sets_equivalent, CallCost::Sets(2.0)),
        "sets.intersects" => priced(lists::sets_intersects, CallCost::Sets(1.0)),
        crate::macros::MAP_INSERT => priced(lists::map_insert, CallCost::Constant),
        name => find_extension_function(name),
    }
}

fn find_extension_function(name: &str) -> Option<Function> {
    match name {
        "optional.of" => priced(optional::of, CallCost::Constant),
        "optional.ofNonZeroValue" => priced(optional::of_non_zero, CallCost::Constant),
        "optional.none" => priced(optional::none, CallCost::Constant),
        "optional.unwrap" | "unwrapOpt" => priced(optional::unwrap_opt, CallCost::Constant),
        "value" => priced(optional::value, CallCost::Constant),
        "hasValue" => priced(optional::has_value, CallCost::Constant),
        "url" => priced(url::url, CallCost::Text(1.0)),
        "isURL" => priced(url::is_url, CallCost::Constant),
        "getScheme" => priced(url::scheme, CallCost::Constant),
        "getHost" => priced(url::host, CallCost::Constant),
        "getHostname" => priced(url::hostname, CallCost::Constant),
        "getPort" => priced(url::port, CallCost::Constant),
        "getEscapedPath" => priced(url::escaped_path, CallCost::Constant),
        "getQuery" => priced(url::query, CallCost::Constant),
        "quantity" => priced(quantity::quantity, CallCost::Text(1.0)),
        "isQuantity" => priced(quantity::is_quantity, CallCost::Text(1.0)),
        "sign" => priced(quantity::sign, CallCost::Constant),
        "isGreaterThan" => priced(quantity::is_greater, CallCost::Constant),
        "isLessThan" => priced(quantity::is_less, CallCost::Constant),
        "compareTo" => priced(quantity::compare, CallCost::Constant),
        "asApproximateFloat" => priced(quantity::as_float, CallCost::Constant),
        "asInteger" => priced(quantity::as_integer, CallCost::Constant),
        "isInteger" => priced(quantity::is_integer, CallCost::Constant),
        "add" => priced(quantity::add, CallCost::Constant),
        "sub" => priced(quantity::sub, CallCost::Constant),
        "ip" => priced(net::ip, CallCost::Text(1.0)),
        "isIP" => priced(net::is_ip, CallCost::Text(1.0)),
        "ip.isCanonical" => priced(net::is_canonical, CallCost::Text(2.0)),
        "family" => priced(net::family, CallCost::Constant),
        "isUnspecified" => priced(net::is_unspecified, CallCost::Constant),
        "isLoopback" => priced(net::is_loopback, CallCost::Constant),
        "isLinkLocalMulticast" => priced(net::is_link_local_multicast, CallCost::Constant),
        "isLinkLocalUnicast" => priced(net::is_link_local_unicast, CallCost::Constant),
        "isGlobalUnicast" => priced(net::is_global_unicast, CallCost::Constant),
        "cidr" => priced(net::cidr, CallCost::Text(1.0)),
        "isCIDR" => priced(net::is_cidr, CallCost::Text(1.0)),
        "containsIP" => priced(net::contains_ip, CallCost::ContainsIp),
        "containsCIDR" => priced(net::contains_cidr, CallCost::ContainsCidr),
        "prefixLength" => priced(net::prefix_length, CallCost::Constant),
        "masked" => priced(net::masked, CallCost::Constant),
        "semver" => priced(semver::semver, CallCost::Text(1.0)),
        "isSemver" => priced(semver::is_semver, CallCost::Text(1.0)),
        "major" => priced(semver::major, CallCost::Constant),
        "minor" => priced(semver::minor, CallCost::Constant),
        "patch" => priced(semver::patch, CallCost::Constant),
        "format.named" => priced(named_formats::named, CallCost::Constant),
        "validate" => priced(named_formats::validate, CallCost::Format),
        "jsonpatch.escapeKey" => priced(strings::escape_key, CallCost::Text(1.0)),
        name => timestamps::find(name).or_else(|| authorizer::find(name)),
    }
}

/// Destructures the arguments; a "no such overload" error if they do not match.
macro_rules! args {
    ($args:expr, $($pattern:pat),+ => $result:expr) => {
        match $args {
            [$($pattern),+] => $result,
            _ => Err(crate::value::EvalError::no_overload()),
        }
    };
}
pub(crate) use args;

/// Fails if a result of `size` bytes would exceed the limit.
pub(crate) fn check_result_size(size: usize) -> Result<()> {
    (size <= RESULT_BYTES_MAX)
        .then_some(())
        .ok_or(EvalError::CostLimitExceeded)
}
