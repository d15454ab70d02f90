//! Pod Security levels and the namespace labels that set them.

use super::LABEL_PREFIX;
use optik_object::FieldError;
use std::fmt;

/// The Pod Security Standards levels, least restrictive first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodSecurityLevel {
    Privileged,
    Baseline,
    Restricted,
}

impl PodSecurityLevel {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Privileged, "privileged"),
        (Self::Baseline, "baseline"),
        (Self::Restricted, "restricted"),
    ];

    fn parse(text: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|(_, name)| *name == text).map(|(level, _)| level)
    }
}

/// A level, pinned to a minor version; `None` is the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelVersion {
    pub level: PodSecurityLevel,
    pub minor: Option<u32>,
}

impl LevelVersion {
    const NONE: Self = Self {
        level: PodSecurityLevel::Privileged,
        minor: None,
    };
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = PodSecurityLevel::ALL.into_iter();
        let name = all.find(|(level, _)| *level == self.level);
        f.write_str(name.map_or("", |(_, name)| name))?;
        match self.minor {
            None => f.write_str(":latest"),
            Some(minor) => write!(f, ":v1.{minor}"),
        }
    }
}

/// The Pod Security settings of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespacePodSecurity {
    /// Violating pods are rejected.
    pub enforce: LevelVersion,
    /// Violations are recorded in the audit log.
    pub audit: LevelVersion,
    /// Violations are returned as warnings.
    pub warn: LevelVersion,
}

impl NamespacePodSecurity {
    /// Whether no mode has any restriction.
    #[must_use]
    pub fn is_privileged(&self) -> bool {
        let bars = [self.enforce, self.audit, self.warn];
        bars.iter()
            .all(|bar| bar.level == PodSecurityLevel::Privileged)
    }
}

/// Parses the labels of a namespace. Invalid values are errors; they count as `restricted` for
/// `enforce` and as `privileged` for the other modes.
pub fn from_labels<'a>(
    label: impl Fn(&str) -> Option<&'a str>,
) -> (NamespacePodSecurity, Vec<FieldError>) {
    let mut reading = LabelParser {
        label,
        errors: Vec::new(),
    };
    let enforced = reading.level("enforce");
    let enforce = LevelVersion {
        level: enforced.map_or(PodSecurityLevel::Privileged, |read| {
            read.unwrap_or(PodSecurityLevel::Restricted)
        }),
        minor: reading.version("enforce").flatten(),
    };
    let audited = reading.level("audit");
    let audit = LevelVersion {
        level: audited.flatten().unwrap_or(PodSecurityLevel::Privileged),
        minor: reading.version("audit").flatten(),
    };
    let warned = reading.level("warn");
    let version = reading.version("warn");
    let mut warn = LevelVersion {
        level: warned.flatten().unwrap_or(PodSecurityLevel::Privileged),
        minor: version.flatten(),
    };
    // An enforced level also warns, in particular about workloads with pod templates.
    if warned.is_none() && enforced.flatten() > Some(warn.level) {
        warn.level = enforce.level;
        if version.is_none() {
            warn.minor = enforce.minor;
        }
    }
    let policy = NamespacePodSecurity {
        enforce,
        audit,
        warn,
    };
    (policy, reading.errors)
}

impl Default for NamespacePodSecurity {
    fn default() -> Self {
        Self {
            enforce: LevelVersion::NONE,
            audit: LevelVersion::NONE,
            warn: LevelVersion::NONE,
        }
    }
}

struct LabelParser<F> {
    label: F,
    errors: Vec<FieldError>,
}

impl<'a, F: Fn(&str) -> Option<&'a str>> LabelParser<F> {
    /// Parses a level label. `None`: no label; `Some(None)`: invalid value.
    fn level(&mut self, mode: &str) -> Option<Option<PodSecurityLevel>> {
        let label = format!("{LABEL_PREFIX}{mode}");
        let text = (self.label)(&label)?;
        let level = PodSecurityLevel::parse(text);
        if level.is_none() {
            let message = "must be one of privileged, baseline, restricted";
            self.report(&label, text, message);
        }
        Some(level)
    }

    /// Parses a version label; an invalid value counts as the latest version.
    fn version(&mut self, mode: &str) -> Option<Option<u32>> {
        let label = format!("{LABEL_PREFIX}{mode}-version");
        let text = (self.label)(&label)?;
        if text == "latest" {
            return Some(None);
        }
        let minor = minor(text);
        if minor.is_none() {
            self.report(&label, text, r#"must be "latest" or "v1.x""#);
        }
        Some(minor)
    }

    fn report(&mut self, label: &str, text: &str, message: &str) {
        let path = format!("metadata.labels[{label}]");
        self.errors.push(FieldError::invalid(path, text, message));
    }
}

fn minor(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("v1.")?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let padded = digits.len() > 1 && digits.starts_with('0');
    (plain && !padded).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(labels: &[(&str, &'static str)]) -> (String, usize) {
        let find = |name: &str| {
            let name = name.strip_prefix(LABEL_PREFIX)?;
            let found = labels.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| *value)
        };
        let (policy, errors) = from_labels(find);
        let NamespacePodSecurity {
            enforce,
            audit,
            warn,
        } = policy;
        (format!("{enforce} {audit} {warn}"), errors.len())
    }

    #[test]
    fn pod_security_labels_match_upstream() {
        let none = "privileged:latest privileged:latest privileged:latest";
        for (labels, expected, errors) in [
            (&[][..], none, 0),
            // `enforce` implies `warn`, unless `warn` is set.
            (
                &[("enforce", "baseline"), ("enforce-version", "v1.25")],
                "baseline:v1.25 privileged:latest baseline:v1.25",
                0,
            ),
            (
                &[("enforce", "baseline"), ("warn-version", "v1.2")],
                "baseline:latest privileged:latest baseline:v1.2",
                0,
            ),
            (
                &[("enforce", "restricted"), ("warn", "privileged")],
                "restricted:latest privileged:latest privileged:latest",
                0,
            ),
            (
                &[("audit", "baseline"), ("audit-version", "latest")],
                "privileged:latest baseline:latest privileged:latest",
                0,
            ),
            (
                &[("enforce", "none"), ("audit", "none"), ("warn", "none")],
                "restricted:latest privileged:latest privileged:latest",
                3,
            ),
            (&[("enforce-version", "v1.01")], none, 1),
            (&[("warn-version", "v2.1")], none, 1),
            (&[("audit-version", "v1.99999999999")], none, 1),
        ] {
            assert_eq!(read(labels), (expected.to_owned(), errors), "{labels:?}");
        }
    }
}
