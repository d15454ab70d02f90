//! The declarations of all CEL functions and operators: their overloads and types.

use crate::types::{CelType, OpaqueType};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One signature of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: String,
    /// Called as a method on its first argument: `a.f(b)`.
    pub(crate) member: bool,
    pub(crate) params: Vec<CelType>,
    pub(crate) result: CelType,
    /// The number of its type parameters.
    pub(crate) free: u32,
}

/// One overload a line: `function id params result`. Member functions have a dot before the
/// parentheses.
const TABLE: &str = "
_?_:_ conditional (bool,A,A) A
_&&_ logical_and (bool,bool) bool
_||_ logical_or (bool,bool) bool
!_ logical_not (bool) bool
@not_strictly_false not_strictly_false (bool) bool
_==_ equals (A,A) bool
_!=_ not_equals (A,A) bool
_+_ add_bytes (bytes,bytes) bytes
_+_ add_double (double,double) double
_+_ add_duration_duration (duration,duration) duration
_+_ add_duration_timestamp (duration,timestamp) timestamp
_+_ add_timestamp_duration (timestamp,duration) timestamp
_+_ add_int64 (int,int) int
_+_ add_list (list(A),list(A)) list(A)
_+_ add_string (string,string) string
_+_ add_uint64 (uint,uint) uint
_/_ divide_double (double,double) double
_/_ divide_int64 (int,int) int
_/_ divide_uint64 (uint,uint) uint
_%_ modulo_int64 (int,int) int
_%_ modulo_uint64 (uint,uint) uint
_*_ multiply_double (double,double) double
_*_ multiply_int64 (int,int) int
_*_ multiply_uint64 (uint,uint) uint
-_ negate_double (double) double
-_ negate_int64 (int) int
_-_ subtract_double (double,double) double
_-_ subtract_duration_duration (duration,duration) duration
_-_ subtract_int64 (int,int) int
_-_ subtract_timestamp_duration (timestamp,duration) timestamp
_-_ subtract_timestamp_timestamp (timestamp,timestamp) duration
_-_ subtract_uint64 (uint,uint) uint
_[_] index_list (list(A),int) A
_[_] index_map (map(A,B),A) B
_[_] optional_list_index_int (optional(list(A)),int) optional(A)
_[_] optional_map_index_value (optional(map(A,B)),A) optional(B)
_[?_] list_optindex_optional_int (list(A),int) optional(A)
_[?_] optional_list_optindex_optional_int (optional(list(A)),int) optional(A)
_[?_] map_optindex_optional_value (map(A,B),A) optional(B)
_[?_] optional_map_optindex_optional_value (optional(map(A,B)),A) optional(B)
_?._ select_optional_field (dyn,string) optional(A)
@in in_list (A,list(A)) bool
@in in_map (A,map(A,B)) bool
size size_bytes (bytes) int
size bytes_size .(bytes) int
size size_list (list(A)) int
size list_size .(list(A)) int
size size_map (map(A,B)) int
size map_size .(map(A,B)) int
size size_string (string) int
size string_size .(string) int
type type (A) type(A)
bool bool_to_bool (bool) bool
bool string_to_bool (string) bool
bytes bytes_to_bytes (bytes) bytes
bytes string_to_bytes (string) bytes
double double_to_double (double) double
double int64_to_double (int) double
double string_to_double (string) double
double uint64_to_double (uint) double
duration duration_to_duration (duration) duration
duration int64_to_duration (int) duration
duration string_to_duration (string) duration
dyn to_dyn (A) dyn
int int64_to_int64 (int) int
int double_to_int64 (double) int
int duration_to_int64 (duration) int
int string_to_int64 (string) int
int timestamp_to_int64 (timestamp) int
int uint64_to_int64 (uint) int
string string_to_string (string) string
string bool_to_string (bool) string
string bytes_to_string (bytes) string
string double_to_string (double) string
string duration_to_string (duration) string
string int64_to_string (int) string
string timestamp_to_string (timestamp) string
string uint64_to_string (uint) string
string ip_to_string (ip) string
string cidr_to_string (cidr) string
timestamp timestamp_to_timestamp (timestamp) timestamp
timestamp int64_to_timestamp (int) timestamp
timestamp string_to_timestamp (string) timestamp
uint uint64_to_uint64 (uint) uint
uint double_to_uint64 (double) uint
uint int64_to_uint64 (int) uint
uint string_to_uint64 (string) uint
contains contains_string .(string,string) bool
endsWith ends_with_string .(string,string) bool
startsWith starts_with_string .(string,string) bool
matches matches (string,string) bool
matches matches_string .(string,string) bool
getFullYear timestamp_to_year .(timestamp) int
getFullYear timestamp_to_year_with_tz .(timestamp,string) int
getMonth timestamp_to_month .(timestamp) int
getMonth timestamp_to_month_with_tz .(timestamp,string) int
getDayOfYear timestamp_to_day_of_year .(timestamp) int
getDayOfYear timestamp_to_day_of_year_with_tz .(timestamp,string) int
getDayOfMonth timestamp_to_day_of_month .(timestamp) int
getDayOfMonth timestamp_to_day_of_month_with_tz .(timestamp,string) int
getDate timestamp_to_day_of_month_1_based .(timestamp) int
getDate timestamp_to_day_of_month_1_based_with_tz .(timestamp,string) int
getDayOfWeek timestamp_to_day_of_week .(timestamp) int
getDayOfWeek timestamp_to_day_of_week_with_tz .(timestamp,string) int
getHours timestamp_to_hours .(timestamp) int
getHours timestamp_to_hours_with_tz .(timestamp,string) int
getHours duration_to_hours .(duration) int
getMinutes timestamp_to_minutes .(timestamp) int
getMinutes timestamp_to_minutes_with_tz .(timestamp,string) int
getMinutes duration_to_minutes .(duration) int
getSeconds timestamp_to_seconds .(timestamp) int
getSeconds timestamp_to_seconds_tz .(timestamp,string) int
getSeconds duration_to_seconds .(duration) int
getMilliseconds timestamp_to_milliseconds .(timestamp) int
getMilliseconds timestamp_to_milliseconds_with_tz .(timestamp,string) int
getMilliseconds duration_to_milliseconds .(duration) int
optional.of optional_of (A) optional(A)
optional.ofNonZeroValue optional_ofNonZeroValue (A) optional(A)
optional.none optional_none () optional(A)
optional.unwrap optional_unwrap (list(optional(A))) list(A)
unwrapOpt optional_unwrapOpt .(list(optional(A))) list(A)
value optional_value .(optional(A)) A
hasValue optional_hasValue .(optional(A)) bool
or optional_or_optional .(optional(A),optional(A)) optional(A)
orValue optional_orValue_value .(optional(A),A) A
first list_first .(list(A)) optional(A)
last list_last .(list(A)) optional(A)
cel.@mapInsert cel_@mapInsert_map_key_value (map(A,B),A,B) map(A,B)
cel.@mapInsert cel_@mapInsert_map_map (map(A,B),map(A,B)) map(A,B)
charAt string_char_at_int .(string,int) string
indexOf list_a_index_of_int .(list(A),A) int
indexOf string_index_of_string .(string,string) int
indexOf string_index_of_string_int .(string,string,int) int
lastIndexOf list_a_last_index_of_int .(list(A),A) int
lastIndexOf string_last_index_of_string .(string,string) int
lastIndexOf string_last_index_of_string_int .(string,string,int) int
lowerAscii string_lower_ascii .(string) string
upperAscii string_upper_ascii .(string) string
replace string_replace_string_string .(string,string,string) string
replace string_replace_string_string_int .(string,string,string,int) string
split string_split_string .(string,string) list(string)
split string_split_string_int .(string,string,int) list(string)
substring string_substring_int .(string,int) string
substring string_substring_int_int .(string,int,int) string
trim string_trim .(string) string
format string_format .(string,list(dyn)) string
strings.quote strings_quote (string) string
join list_join .(list(string)) string
join list_join_string .(list(string),string) string
find string_find_string .(string,string) string
findAll string_find_all_string .(string,string) list(string)
findAll string_find_all_string_int .(string,string,int) list(string)
slice list_slice .(list(A),int,int) list(A)
flatten list_flatten .(list(list(A))) list(A)
flatten list_flatten_int .(list(dyn),int) list(dyn)
reverse list_reverse .(list(A)) list(A)
distinct list_distinct .(list(A)) list(A)
lists.range lists_range (int) list(int)
sets.contains list_sets_contains_list (list(A),list(A)) bool
sets.equivalent list_sets_equivalent_list (list(A),list(A)) bool
sets.intersects list_sets_intersects_list (list(A),list(A)) bool
url string_to_url (string) url
isURL is_url_string (string) bool
getScheme url_get_scheme .(url) string
getHost url_get_host .(url) string
getHostname url_get_hostname .(url) string
getPort url_get_port .(url) string
getEscapedPath url_get_escaped_path .(url) string
getQuery url_get_query .(url) map(string,list(string))
quantity string_to_quantity (string) quantity
isQuantity is_quantity_string (string) bool
sign quantity_sign (quantity) int
isGreaterThan quantity_is_greater_than .(quantity,quantity) bool
isGreaterThan semver_is_greater_than .(semver,semver) bool
isLessThan quantity_is_less_than .(quantity,quantity) bool
isLessThan semver_is_less_than .(semver,semver) bool
compareTo quantity_compare_to .(quantity,quantity) int
compareTo semver_compare_to .(semver,semver) int
asApproximateFloat quantity_get_float .(quantity) double
asInteger quantity_get_int .(quantity) int
isInteger quantity_is_integer .(quantity) bool
add quantity_add .(quantity,quantity) quantity
add quantity_add_int .(quantity,int) quantity
sub quantity_sub .(quantity,quantity) quantity
sub quantity_sub_int .(quantity,int) quantity
ip string_to_ip (string) ip
ip cidr_ip .(cidr) ip
family ip_family .(ip) int
ip.isCanonical ip_is_canonical (string) bool
isUnspecified ip_is_unspecified .(ip) bool
isLoopback ip_is_loopback .(ip) bool
isLinkLocalMulticast ip_is_link_local_multicast .(ip) bool
isLinkLocalUnicast ip_is_link_local_unicast .(ip) bool
isGlobalUnicast ip_is_global_unicast .(ip) bool
isIP is_ip (string) bool
cidr string_to_cidr (string) cidr
containsIP cidr_contains_ip_string .(cidr,string) bool
containsIP cidr_contains_ip_ip .(cidr,ip) bool
containsCIDR cidr_contains_cidr_string .(cidr,string) bool
containsCIDR cidr_contains_cidr .(cidr,cidr) bool
prefixLength cidr_prefix_length .(cidr) int
masked cidr_masked .(cidr) cidr
isCIDR is_cidr (string) bool
semver string_to_semver (string) semver
semver string_bool_to_semver (string,bool) semver
isSemver is_semver_string (string) bool
isSemver is_semver_string_bool (string,bool) bool
major semver_major .(semver) int
minor semver_minor .(semver) int
patch semver_patch .(semver) int
format.named format-named (string) optional(format)
validate format-validate .(format,string) optional(list(string))
path authorizer_path .(authorizer,string) pathcheck
group authorizer_group .(authorizer,string) groupcheck
serviceAccount authorizer_serviceaccount .(authorizer,string,string) authorizer
resource groupcheck_resource .(groupcheck,string) resourcecheck
subresource resourcecheck_subresource .(resourcecheck,string) resourcecheck
namespace resourcecheck_namespace .(resourcecheck,string) resourcecheck
name resourcecheck_name .(resourcecheck,string) resourcecheck
fieldSelector authorizer_fieldselector .(resourcecheck,string) resourcecheck
labelSelector authorizer_labelselector .(resourcecheck,string) resourcecheck
check pathcheck_check .(pathcheck,string) decision
check resourcecheck_check .(resourcecheck,string) decision
errored decision_errored .(decision) bool
error decision_error .(decision) string
allowed decision_allowed .(decision) bool
reason decision_reason .(decision) string
jsonpatch.escapeKey string_jsonpatch_escapeKey_string (string) string
";

/// The types that `<`, `<=`, `>` and `>=` accept.
pub(crate) const ORDERED_TYPES: [&str; 8] = [
    "int",
    "uint",
    "double",
    "bool",
    "duration",
    "timestamp",
    "string",
    "bytes",
];
const SUMMABLE_TYPES: [&str; 4] = ["int", "uint", "double", "duration"];

/// The overloads of the ordering operators: operand types and the suffix of the overload id.
const COMPARISON_OVERLOADS: [(&str, &str, &str); 14] = [
    ("bool", "bool", "bool"),
    ("int", "int", "int64"),
    ("int", "double", "int64_double"),
    ("int", "uint", "int64_uint64"),
    ("uint", "uint", "uint64"),
    ("uint", "double", "uint64_double"),
    ("uint", "int", "uint64_int64"),
    ("double", "double", "double"),
    ("double", "int", "double_int64"),
    ("double", "uint", "double_uint64"),
    ("string", "string", "string"),
    ("bytes", "bytes", "bytes"),
    ("timestamp", "timestamp", "timestamp"),
    ("duration", "duration", "duration"),
];

type Functions = BTreeMap<String, Vec<Overload>>;

static FUNCTIONS: LazyLock<Functions> = LazyLock::new(|| {
    let mut functions = Functions::new();
    let mut add = |name: &str, id: &str, params: &str, result: &str| {
        let overload = overload(id, params, result);
        functions.entry(name.to_owned()).or_default().push(overload);
    };
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split(' ');
        let mut next = || words.next().unwrap_or_default();
        let (name, id, params, result) = (next(), next(), next(), next());
        add(name, id, params, result);
    }
    for (name, id) in [
        ("_<_", "less"),
        ("_<=_", "less_equals"),
        ("_>_", "greater"),
        ("_>=_", "greater_equals"),
    ] {
        for (left, right, suffix) in COMPARISON_OVERLOADS {
            let params = format!("({left},{right})");
            add(name, &format!("{id}_{suffix}"), &params, "bool");
        }
    }
    for of in ORDERED_TYPES {
        let list = format!(".(list({of}))");
        add(
            "isSorted",
            &format!("list_{of}_is_sorted_bool"),
            &list,
            "bool",
        );
        add("max", &format!("list_{of}_max_{of}"), &list, of);
        add("min", &format!("list_{of}_min_{of}"), &list, of);
        add(
            "sort",
            &format!("list_{of}_sort"),
            &list,
            &format!("list({of})"),
        );
        let params = format!(".(list(A),list({of}))");
        let id = format!("list_{of}_sortByAssociatedKeys");
        add(crate::macros::SORT_BY_KEYS, &id, &params, "list(A)");
    }
    for of in SUMMABLE_TYPES {
        let list = format!(".(list({of}))");
        add("sum", &format!("list_{of}_sum_{of}"), &list, of);
    }
    for format in crate::library::formats() {
        let name = format!("format.{format}");
        add(&name, &name, "()", "format");
    }
    functions
});

/// The names of all functions that expressions can call, without operators.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    let names = FUNCTIONS.keys().map(String::as_str);
    names.filter(|name| name.starts_with(char::is_alphabetic) && !name.contains('@'))
}

/// The overloads of a function; `None` if the name is unknown.
pub(crate) fn find(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

fn overload(id: &str, params: &str, result: &str) -> Overload {
    let (member, params) = match params.strip_prefix('.') {
        Some(params) => (true, params),
        None => (false, params),
    };
    let inner = params
        .strip_prefix('(')
        .and_then(|params| params.strip_suffix(')'));
    let params: Vec<CelType> = split(inner.unwrap_or_default())
        .into_iter()
        .map(parse_type)
        .collect();
    let result = parse_type(result);
    let free = params.iter().chain([&result]).map(count_type_params).max();
    Overload {
        id: id.to_owned(),
        member,
        params,
        result,
        free: free.unwrap_or(0),
    }
}

/// The number of type parameters (A, B) in a type.
fn count_type_params(of: &CelType) -> u32 {
    match of {
        CelType::TypeParam(number) => number + 1,
        CelType::List(of) | CelType::Optional(of) | CelType::Type(of) => count_type_params(of),
        CelType::Map(of) => count_type_params(&of.0).max(count_type_params(&of.1)),
        _ => 0,
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < text.len() {
        parts.push(&text[start..]);
    }
    parts
}

fn parse_type(text: &str) -> CelType {
    if let Some((name, rest)) = text.split_once('(') {
        let inner = rest.strip_suffix(')').unwrap_or_default();
        let mut of = split(inner).into_iter().map(parse_type);
        let mut next = || of.next().unwrap_or(CelType::Dyn);
        return match name {
            "list" => CelType::list(next()),
            "optional" => CelType::optional(next()),
            "map" => CelType::map(next(), next()),
            _ => CelType::type_of(next()),
        };
    }
    match text {
        "A" => CelType::TypeParam(0),
        "B" => CelType::TypeParam(1),
        "bool" => CelType::Bool,
        "int" => CelType::Int,
        "uint" => CelType::Uint,
        "double" => CelType::Double,
        "string" => CelType::String,
        "bytes" => CelType::Bytes,
        "timestamp" => CelType::Timestamp,
        "duration" => CelType::Duration,
        "url" => CelType::Opaque(OpaqueType::Url),
        "quantity" => CelType::Opaque(OpaqueType::Quantity),
        "ip" => CelType::Opaque(OpaqueType::Ip),
        "cidr" => CelType::Opaque(OpaqueType::Cidr),
        "semver" => CelType::Opaque(OpaqueType::Semver),
        "format" => CelType::Opaque(OpaqueType::Format),
        "authorizer" => CelType::Opaque(OpaqueType::Authorizer),
        "pathcheck" => CelType::Opaque(OpaqueType::PathCheck),
        "groupcheck" => CelType::Opaque(OpaqueType::GroupCheck),
        "resourcecheck" => CelType::Opaque(OpaqueType::ResourceCheck),
        "decision" => CelType::Opaque(OpaqueType::Decision),
        _ => CelType::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_table_parses() {
        let overloads = find("_[_]").unwrap();
        assert_eq!(overloads.len(), 4);
        assert_eq!(overloads[1].free, 2);
        assert_eq!(overloads[1].params[0].to_string(), "map(_var0, _var1)");
        assert!(find("getQuery").unwrap()[0].member);
        let result = &find("getQuery").unwrap()[0].result;
        assert_eq!(result.to_string(), "map(string, list(string))");
        assert_eq!(find("isSorted").unwrap().len(), 8);
        assert!(find("nothing").is_none());
        for (name, overloads) in FUNCTIONS.iter() {
            for overload in overloads {
                let unknown = |of: &CelType| matches!(of, CelType::Dyn) && name != "dyn";
                assert!(!unknown(&overload.result), "{name}");
            }
        }
    }
}
