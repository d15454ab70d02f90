//! A parser for command lines of programs written in Go (packages `flag` and `pflag`).

use std::collections::BTreeMap;

/// The flag syntax of a program.
#[derive(Clone, Copy)]
pub(super) struct FlagSyntax {
    /// One line for each flag: its name, `=` if a value is required, `?` if it is optional.
    pub(super) table: &'static str,
    /// Whether one dash may precede a long name.
    pub(super) one_dash: bool,
    /// Flags with a short form: one dash and a letter.
    pub(super) short: &'static [&'static str],
}

/// The values given to each flag, in order. A boolean flag has `true` or `false`.
pub(super) type Flags = BTreeMap<&'static str, Vec<String>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum FlagArity {
    Value,
    OptionalValue,
    NoValue,
}

impl FlagSyntax {
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        self.entries().map(|(name, _)| name)
    }

    fn entries(self) -> impl Iterator<Item = (&'static str, FlagArity)> {
        self.table.lines().map(|line| {
            if let Some(name) = line.strip_suffix('=') {
                (name, FlagArity::Value)
            } else if let Some(name) = line.strip_suffix('?') {
                (name, FlagArity::OptionalValue)
            } else {
                (line, FlagArity::NoValue)
            }
        })
    }

    /// Parses a command line. The error has the wording of the real program.
    pub(super) fn parse(self, words: &[String]) -> Result<Flags, String> {
        let known: BTreeMap<_, _> = self.entries().collect();
        let mut flags = Flags::new();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            let (name, value) = self.split(word)?;
            let Some((&name, &takes)) = known.get_key_value(name) else {
                return Err(format!("unknown flag: --{name}"));
            };
            let value = match (value, takes) {
                (Some(value), FlagArity::NoValue) => parse_bool(name, value)?.to_string(),
                (Some(value), _) => value.to_owned(),
                (None, FlagArity::Value) => {
                    let missing = || format!("flag needs an argument: --{name}");
                    words.next().ok_or_else(missing)?.clone()
                }
                (None, FlagArity::NoValue) => "true".to_owned(),
                (None, FlagArity::OptionalValue) => {
                    let is_value = words.peek().is_some_and(|word| !word.starts_with('-'));
                    let value = if is_value { words.next() } else { None };
                    value.cloned().unwrap_or_else(|| "true".to_owned())
                }
            };
            flags.entry(name).or_default().push(value);
        }
        Ok(flags)
    }

    fn split(self, word: &str) -> Result<(&str, Option<&str>), String> {
        let long = match word.strip_prefix("--") {
            Some(long) => long,
            None => {
                let one = word.strip_prefix('-').filter(|one| !one.is_empty());
                let one = one.ok_or_else(|| format!("unexpected argument: {word:?}"))?;
                let is_short = |letter: &&&str| one.starts_with(**letter);
                match self.short.iter().find(is_short) {
                    Some(letter) if !self.one_dash => {
                        let rest = one.strip_prefix(letter).unwrap_or_default();
                        let value = rest.strip_prefix('=').unwrap_or(rest);
                        let name = one.split_at(letter.len()).0;
                        return Ok((name, (!value.is_empty()).then_some(value)));
                    }
                    _ if self.one_dash => one,
                    _ => return Err(format!("unknown shorthand flag in {word}")),
                }
            }
        };
        Ok(match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        })
    }
}

/// Parses a boolean as Go does.
fn parse_bool(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!(
            "invalid argument {value:?} for \"--{name}\" flag: it is true or false"
        )),
    }
}

/// The last value of a flag that takes one value.
pub(super) fn last_value<'a>(flags: &'a Flags, name: &str) -> Option<&'a str> {
    flags
        .get(name)
        .and_then(|all| all.last())
        .map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PFLAG: FlagSyntax = FlagSyntax {
        table: "port=\nquiet\nv=\nlock?\n",
        one_dash: false,
        short: &["v"],
    };
    const GO: FlagSyntax = FlagSyntax {
        one_dash: true,
        short: &[],
        ..PFLAG
    };

    fn read(grammar: FlagSyntax, line: &str) -> Result<String, String> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        let flags = grammar.parse(&words)?;
        let flags = flags
            .iter()
            .map(|(name, all)| format!("{name}={}", all.join("+")));
        Ok(flags.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn flags_are_parsed_as_by_go() {
        for (grammar, line, expected) in [
            (PFLAG, "--port=1 --port 2", Ok("port=1+2")),
            (PFLAG, "--port=", Ok("port=")),
            (PFLAG, "--quiet --port -1", Ok("port=-1 quiet=true")),
            (PFLAG, "--quiet=F", Ok("quiet=false")),
            (PFLAG, "-v=2 -v3 -v 4", Ok("v=2+3+4")),
            (PFLAG, "--lock --lock 7", Ok("lock=true+7")),
            (GO, "-port=1 --port 2 -quiet", Ok("port=1+2 quiet=true")),
            (PFLAG, "--nope", Err("unknown flag: --nope")),
            (PFLAG, "-x", Err("unknown shorthand flag in -x")),
            (PFLAG, "--port", Err("flag needs an argument: --port")),
            (PFLAG, "word", Err("unexpected argument: \"word\"")),
            (PFLAG, "--quiet yes", Err("unexpected argument: \"yes\"")),
            (
                PFLAG,
                "--quiet=yes",
                Err("invalid argument \"yes\" for \"--quiet\" flag: it is true or false"),
            ),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(read(grammar, line), expected, "{line}");
        }
    }
}
