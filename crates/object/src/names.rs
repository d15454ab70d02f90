//! Validation of names, labels and keys, and `generateName`.
//!
//! Each check returns every problem, with the messages of Kubernetes; the caller adds a field path.

/// The problems of a name; empty if it is valid.
pub type Problems = Vec<String>;

const LABEL_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;
/// The maximum length of the name part of a label key and of a label value.
const LABEL_PART_BYTES_MAX: usize = 63;
const GENERATED_SUFFIX_CHARS: usize = 5;
const GENERATED_BASE_BYTES_MAX: usize = 63 - GENERATED_SUFFIX_CHARS;
/// No vowels and no digits that look like vowels, so that no generated name spells a word.
const GENERATED_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

const DNS_LABEL: NamePattern = NamePattern {
    text: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
           and must start and end with an alphanumeric character",
    regex: "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    examples: &["my-name", "123-abc"],
};
const DNS_SUBDOMAIN: NamePattern = NamePattern {
    text: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
           or '.', and must start and end with an alphanumeric character",
    regex: "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    examples: &["example.com"],
};
const DNS_1035_LABEL: NamePattern = NamePattern {
    text: "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
           an alphabetic character, and end with an alphanumeric character",
    regex: "[a-z]([-a-z0-9]*[a-z0-9])?",
    examples: &["my-name", "abc-123"],
};
const LABEL_KEY: NamePattern = NamePattern {
    text: "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
           an alphanumeric character",
    regex: "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    examples: &["MyName", "my.name", "123-abc"],
};
const LABEL_VALUE: NamePattern = NamePattern {
    text: "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
           or '.', and must start and end with an alphanumeric character",
    regex: "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
    examples: &["MyValue", "my_value", "12345"],
};

/// A naming rule as error messages explain it. The regex is only printed, never run.
struct NamePattern {
    text: &'static str,
    regex: &'static str,
    examples: &'static [&'static str],
}

impl NamePattern {
    fn problem(&self) -> String {
        // Two spaces before "or", as upstream has them.
        let examples: Vec<String> = self
            .examples
            .iter()
            .map(|text| format!("'{text}', "))
            .collect();
        format!(
            "{} (e.g. {}regex used for validation is '{}')",
            self.text,
            examples.join(" or "),
            self.regex
        )
    }
}

/// Validates a DNS-1123 label. Most names that become part of a host name are labels: namespaces,
/// for example.
#[must_use]
pub fn dns1123_label(name: &str) -> Problems {
    let mut problems = too_long(name, LABEL_BYTES_MAX, "characters");
    if !is_dns_label(name) {
        problems.push(if is_dns_subdomain(name) {
            "must not contain dots".into()
        } else {
            DNS_LABEL.problem()
        });
    }
    problems
}

/// Validates a DNS-1035 label: the names and versions of CRDs, for example.
#[must_use]
pub fn dns1035_label(name: &str) -> Problems {
    let mut problems = too_long(name, LABEL_BYTES_MAX, "characters");
    if !is_dns_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        problems.push(DNS_1035_LABEL.problem());
    }
    problems
}

/// Validates a DNS-1123 subdomain, which most other names are.
#[must_use]
pub fn dns1123_subdomain(name: &str) -> Problems {
    subdomain(name, "characters")
}

fn subdomain(name: &str, unit: &str) -> Problems {
    let mut problems = too_long(name, SUBDOMAIN_BYTES_MAX, unit);
    if !is_dns_subdomain(name) {
        problems.push(DNS_SUBDOMAIN.problem());
    }
    problems
}

/// Validates a path segment, the minimum for every name. Some kinds (roles) require no more.
#[must_use]
pub fn path_segment(name: &str) -> Problems {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| name.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// Validates a qualified name: `app`, `example.com/app`. Label keys, finalizers and annotation keys
/// are qualified names.
#[must_use]
pub fn qualified_name(key: &str) -> Problems {
    let parts: Vec<&str> = key.split('/').collect();
    let (mut problems, name) = match parts[..] {
        [name] => (Vec::new(), name),
        ["", name] => (vec!["prefix part must be non-empty".into()], name),
        [prefix, name] => (prefixed("prefix part ", subdomain(prefix, "bytes")), name),
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')",
                LABEL_KEY.problem()
            )];
        }
    };
    let of_name = if name.is_empty() {
        vec!["must be non-empty".into()]
    } else {
        too_long(name, LABEL_PART_BYTES_MAX, "bytes")
    };
    problems.extend(prefixed("name part ", of_name));
    if !is_label_part(name) {
        problems.push(format!("name part {}", LABEL_KEY.problem()));
    }
    problems
}

#[must_use]
pub fn label_value(value: &str) -> Problems {
    let mut problems = too_long(value, LABEL_PART_BYTES_MAX, "bytes");
    if !value.is_empty() && !is_label_part(value) {
        problems.push(LABEL_VALUE.problem());
    }
    problems
}

/// CONC §2.6: the first 58 characters of `base`, and five characters derived from `random`.
#[must_use]
pub fn generate_name(base: &str, random: u32) -> String {
    let mut name = String::from(truncate(base, GENERATED_BASE_BYTES_MAX));
    let (mut random, letters) = (random as usize, GENERATED_ALPHABET.len());
    for _ in 0..GENERATED_SUFFIX_CHARS {
        name.push(char::from(GENERATED_ALPHABET[random % letters]));
        random /= letters;
    }
    name
}

/// The longest prefix of at most `bytes_max` bytes that ends at a character boundary.
fn truncate(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Upstream's messages give the limits of names in characters and those of labels in bytes.
fn too_long(text: &str, bytes_max: usize, unit: &str) -> Problems {
    if text.len() > bytes_max {
        vec![format!("must be no more than {bytes_max} {unit}")]
    } else {
        Vec::new()
    }
}

fn prefixed(prefix: &str, problems: Problems) -> Problems {
    problems
        .into_iter()
        .map(|problem| format!("{prefix}{problem}"))
        .collect()
}

fn is_dns_label(text: &str) -> bool {
    has_alphanumeric_ends(
        text,
        |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit(),
        b"-",
    )
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_label_part(text: &str) -> bool {
    has_alphanumeric_ends(text, |byte| byte.is_ascii_alphanumeric(), b"-_.")
}

/// Whether the text begins and ends with a letter and has only letters and `others` in between.
fn has_alphanumeric_ends(text: &str, is_letter: fn(u8) -> bool, others: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    is_letter(*first)
        && is_letter(*last)
        && bytes
            .iter()
            .all(|byte| is_letter(*byte) || others.contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(problems: impl AsRef<[String]>, expected: &[&str]) {
        assert_eq!(problems.as_ref(), expected);
    }

    const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    const KEY_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    const VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

    #[test]
    fn dns_names_are_validated_as_upstream() {
        for good in ["a", "0", "a-b", "a--b", &"a".repeat(63)] {
            check(dns1123_label(good), &[]);
            check(dns1123_subdomain(good), &[]);
        }
        check(dns1123_label("a.b"), &["must not contain dots"]);
        for bad in ["", "-a", "a-", "A", "a_b", "é", "a..b", "a b"] {
            check(dns1123_label(bad), &[LABEL_TEXT]);
            check(dns1123_subdomain(bad), &[SUBDOMAIN_TEXT]);
        }
        check(
            dns1123_label(&"a".repeat(64)),
            &["must be no more than 63 characters"],
        );
        check(dns1123_subdomain("a.b-c.0"), &[]);
        check(
            dns1123_subdomain(&"a".repeat(254)),
            &["must be no more than 253 characters"],
        );
    }

    #[test]
    fn path_segment_names_are_validated_as_upstream() {
        check(path_segment("system:node"), &[]);
        check(path_segment("."), &["may not be '.'"]);
        check(path_segment(".."), &["may not be '..'"]);
        check(
            path_segment("a/b%"),
            &["may not contain '/'", "may not contain '%'"],
        );
    }

    #[test]
    fn label_keys_and_values_are_validated_as_upstream() {
        for good in ["a", "A_b.c-9", "example.com/a"] {
            check(qualified_name(good), &[]);
        }
        check(qualified_name("-a"), &[&format!("name part {KEY_TEXT}")]);
        check(
            qualified_name(""),
            &[
                "name part must be non-empty",
                &format!("name part {KEY_TEXT}"),
            ],
        );
        check(qualified_name("/a"), &["prefix part must be non-empty"]);
        check(
            qualified_name("A/a"),
            &[&format!("prefix part {SUBDOMAIN_TEXT}")],
        );
        check(
            qualified_name(&"a".repeat(64)),
            &["name part must be no more than 63 bytes"],
        );
        check(
            qualified_name("a/b/c"),
            &[&format!(
                "a valid label key {KEY_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )],
        );
        for good in ["", "a", "A.b_c-9"] {
            check(label_value(good), &[]);
        }
        check(label_value("-"), &[VALUE_TEXT]);
        check(
            label_value(&"a".repeat(64)),
            &["must be no more than 63 bytes"],
        );
    }

    proptest! {
        /// CONC §2.6.
        #[test]
        fn generate_name_appends_random_suffix(random: u32, base in "[a-z-]{0,80}") {
            let name = generate_name(&base, random);
            let (kept, letters) = name.split_at(name.len() - 5);
            prop_assert_eq!(kept, &base[..base.len().min(58)]);
            prop_assert!(letters.bytes().all(|letter| GENERATED_ALPHABET.contains(&letter)));
            prop_assert!(name.len() <= 63);
        }

        #[test]
        fn name_validation_never_panics(text: String, random: u32) {
            let _ = (dns1123_label(&text), dns1123_subdomain(&text), path_segment(&text));
            let _ = (qualified_name(&text), label_value(&text), generate_name(&text, random));
        }
    }
}
