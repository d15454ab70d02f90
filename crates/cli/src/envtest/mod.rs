//! Emulation of kube-apiserver and etcd for envtest, when the binary is called by their names.
//!
//! Go test suites start an API server and its etcd from a directory of programs, with the flags of
//! the real ones. Called `kube-apiserver` or `etcd`, the binary translates such a command line to
//! `optik serve`.

mod admission_plugins;
mod apiserver_flag_actions;
mod apiserver_flags;
pub(crate) mod assets;
mod etcd_flags;
mod flag_action;
mod go_flags;

use crate::Cli;
use clap::{ArgAction, CommandFactory};
use flag_action::{FlagAction, FlagGroup, action_of, check_flags};
use go_flags::{FlagSyntax, Flags, last_value};
use std::collections::BTreeMap;
use std::path::Path;

/// The programs that are emulated.
const PROGRAMS: [&EmulatedProgram; 2] = [&apiserver_flags::PROGRAM, &etcd_flags::PROGRAM];

struct EmulatedProgram {
    name: &'static str,
    version: &'static str,
    syntax: FlagSyntax,
    /// The exit code for an invalid command line.
    exit_usage: u8,
    /// The action for each flag.
    flag_groups: &'static [FlagGroup],
    /// The `optik serve` arguments for flags that are [`FlagAction::Translated`].
    translate: fn(&Flags) -> Result<Vec<String>, String>,
}

/// The result of parsing a command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CommandLine {
    /// The equivalent command line of Optik, and the flags that it ignores.
    Run {
        words: Vec<String>,
        ignored: Vec<&'static str>,
    },
    Print(String),
    Reject {
        text: String,
        exit: u8,
    },
}

/// Parses a command line whose first word is the name of an emulated program; `None` for other
/// names.
pub(crate) fn parse(words: &[String]) -> Option<CommandLine> {
    let (called, words) = words.split_first()?;
    let called = Path::new(called).file_name()?.to_str()?;
    let program = PROGRAMS
        .into_iter()
        .find(|program| program.name == called)?;
    Some(program.parse(words))
}

impl EmulatedProgram {
    fn parse(&self, words: &[String]) -> CommandLine {
        let asks = |names: [&str; 2]| words.iter().any(|word| names.contains(&word.as_str()));
        if asks(["--help", "-h"]) {
            return CommandLine::Print(self.help());
        }
        if asks(["--version", "-version"]) {
            return CommandLine::Print(self.version.to_owned());
        }
        match self.translate_flags(words) {
            Ok((words, ignored)) => CommandLine::Run { words, ignored },
            Err(text) => CommandLine::Reject {
                text: format!("{}: {text}", self.name),
                exit: self.exit_usage,
            },
        }
    }

    fn translate_flags(
        &self,
        words: &[String],
    ) -> Result<(Vec<String>, Vec<&'static str>), String> {
        let flags = self.syntax.parse(words)?;
        check_flags(self.flag_groups, &flags)?;
        let translated = (self.translate)(&flags)?;
        let ours = serve_flags();
        let mut words = vec!["optik".to_owned(), "serve".to_owned()];
        words.extend(translated);
        let mut ignored = Vec::new();
        for (name, values) in &flags {
            match (action_of(self.flag_groups, name), ours.get(*name)) {
                (Some(FlagAction::Translated), _) => {}
                (Some(FlagAction::Same), Some(taken)) => {
                    taken.append_args(name, values, &mut words);
                }
                _ => ignored.push(*name),
            }
        }
        Ok((words, ignored))
    }

    /// The help text, with each flag on its own line: test suites search it for flags.
    fn help(&self) -> String {
        let flags: String = self
            .syntax
            .names()
            .map(|name| format!("      --{name}\n"))
            .collect();
        format!(
            "Optik {} in place of {}.\n\n\
             It takes the flags of the real program. Those that mean nothing to it are\n\
             ignored, with a line in the log.\n\n\
             Usage:\n  {} [flags]\n\nFlags:\n{flags}",
            env!("CARGO_PKG_VERSION"),
            self.name,
            self.name,
        )
    }
}

/// How often a flag of `optik serve` may be given, and whether it takes a value.
#[derive(Clone, Copy)]
enum ServeFlagKind {
    Switch,
    Once,
    Repeated,
}

impl ServeFlagKind {
    fn append_args(self, name: &str, values: &[String], words: &mut Vec<String>) {
        let value = |value: &String| format!("--{name}={value}");
        match self {
            Self::Switch if values.last().is_some_and(|value| value == "true") => {
                words.push(format!("--{name}"));
            }
            Self::Switch => {}
            Self::Once => words.extend(values.last().map(value)),
            Self::Repeated => words.extend(values.iter().map(value)),
        }
    }
}

/// The flags of `optik serve`; a flag of the same name has the same meaning.
fn serve_flags() -> BTreeMap<String, ServeFlagKind> {
    let cli = Cli::command();
    let serve = cli.find_subcommand("serve");
    let flags = serve.into_iter().flat_map(clap::Command::get_arguments);
    flags
        .filter_map(|flag| {
            let taken = match flag.get_action() {
                ArgAction::SetTrue => ServeFlagKind::Switch,
                ArgAction::Append => ServeFlagKind::Repeated,
                _ => ServeFlagKind::Once,
            };
            Some((flag.get_long()?.to_owned(), taken))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn run(line: &str) -> CommandLine {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words).expect("one of the names")
    }

    fn expect(line: &str, words: &str, ignored: &str) {
        let CommandLine::Run {
            words: w,
            ignored: i,
        } = run(line)
        else {
            panic!("{line}: {:?}", run(line));
        };
        assert_eq!(
            (w.join(" ").as_str(), i.join(" ").as_str()),
            (words, ignored),
            "{line}"
        );
        Cli::try_parse_from(&w).unwrap_or_else(|error| panic!("{line}: {error}"));
    }

    /// With every flag that envtest sets by default.
    /// WIRE-91.
    #[test]
    fn envtest_flags_are_translated() {
        expect(
            "/assets/etcd --advertise-client-urls=http://127.0.0.1:31001 --data-dir=/tmp/d \
             --listen-client-urls=http://127.0.0.1:31001 --listen-peer-urls=http://127.0.0.1:31002 \
             --unsafe-no-fsync=true",
            "optik serve --etcd-only --etcd-listen=127.0.0.1:31001 --data=/tmp/d \
             --history-age=8760h --durability=process-crash",
            "advertise-client-urls listen-peer-urls",
        );
        let CommandLine::Run { words, ignored } = run(
            "/assets/kube-apiserver --allow-privileged=true --authorization-mode=RBAC \
             --bind-address=127.0.0.1 --cert-dir=/tmp/none --client-ca-file=/tmp/ca.crt \
             --disable-admission-plugins=ServiceAccount --etcd-servers=http://127.0.0.1:31001 \
             --secure-port=31003 --service-account-issuer=https://127.0.0.1:31003/ \
             --service-account-key-file=/tmp/sa.crt --service-account-signing-key-file=/tmp/sa.key \
             --service-cluster-ip-range=10.0.0.0/24",
        ) else {
            panic!("the flags of envtest are refused");
        };
        for word in [
            "--etcd=http://127.0.0.1:31001",
            "--listen=127.0.0.1:31003",
            "--cert-dir=/tmp/none/optik",
            "--client-ca-file=/tmp/ca.crt",
            "--authorization-mode=RBAC",
            "--service-account-key-file=/tmp/sa.crt",
            "--service-cluster-ip-range=10.0.0.0/24",
        ] {
            assert!(words.iter().any(|w| w == word), "{words:?} lacks {word}");
        }
        assert!(ignored.contains(&"allow-privileged"), "{ignored:?}");
        Cli::try_parse_from(&words).expect("our own flags");
    }

    #[test]
    fn invalid_flags_exit_as_the_real_programs_do() {
        let etcd = "etcd --data-dir=/tmp/d";
        let server = "kube-apiserver --etcd-servers=http://127.0.0.1:1";
        for (line, text, exit) in [
            (
                format!("{etcd} --nonsense"),
                "etcd: unknown flag: --nonsense",
                2,
            ),
            (
                format!("{server} --nonsense"),
                "unknown flag: --nonsense",
                1,
            ),
            (format!("{server} --insecure-port=0"), "unknown flag", 1),
            (format!("{server} --secure-port=x"), "--secure-port", 1),
            (format!("{server} --secure-port=0"), "--secure-port", 1),
            (format!("{server} --bind-address=x"), "--bind-address", 1),
            (format!("{server} --etcd-prefix=/other"), "--etcd-prefix", 1),
            (
                "kube-apiserver".into(),
                "--etcd-servers must be specified",
                1,
            ),
            (format!("{server} word"), "unexpected argument", 1),
            (
                format!("{server} --authorization-mode=RBAC,Webhook"),
                "--authorization-mode Webhook",
                1,
            ),
            (
                format!("{server} --authorization-webhook-config-file=f"),
                "--authorization-webhook-config-file",
                1,
            ),
            (
                format!("{etcd} --listen-client-urls=https://127.0.0.1:1"),
                "--listen-client-urls",
                2,
            ),
            (
                format!("{etcd} --listen-client-urls=http://127.0.0.1:1,http://127.0.0.1:2"),
                "--listen-client-urls",
                2,
            ),
            (
                format!("{etcd} --client-cert-auth"),
                "--client-cert-auth",
                2,
            ),
            (
                format!("{etcd} --initial-cluster=a=http://h:1,b=http://h:2"),
                "--initial-cluster",
                2,
            ),
        ] {
            let CommandLine::Reject {
                text: found,
                exit: code,
            } = run(&line)
            else {
                panic!("{line}: {:?}", run(&line));
            };
            assert!(found.contains(text), "{line}: {found}");
            assert_eq!(code, exit, "{line}");
        }
    }

    #[test]
    fn every_upstream_flag_has_exactly_one_action() {
        let ours = serve_flags();
        for program in PROGRAMS {
            let listed = || program.flag_groups.iter().flat_map(|(_, names)| *names);
            for name in program.syntax.names() {
                let count = listed().filter(|listed| **listed == name).count();
                assert_eq!(count, 1, "{}: {name}", program.name);
                let same = matches!(action_of(program.flag_groups, name), Some(FlagAction::Same));
                assert_eq!(same, same && ours.contains_key(name), "{name}");
            }
            for listed in listed() {
                let known = program.syntax.names().any(|name| name == *listed);
                assert!(known, "{} has no {listed}", program.name);
            }
        }
    }

    /// Flags that affect access or stored data are honoured or rejected.
    #[test]
    fn flags_for_access_or_data_are_translated_or_refused() {
        let suites = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,\
            TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305,\
            TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,\
            TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA";
        let suites = format!("--tls-cipher-suites={suites}");
        for (flag, refusal) in [
            ("--anonymous-auth=false", None),
            ("--enable-admission-plugins=PodSecurity,ResourceQuota", None),
            ("--enable-admission-plugins=", None),
            (
                "--enable-admission-plugins=PodSecurity,NodeRestriction,AlwaysPullImages",
                Some("does not have the admission plugin NodeRestriction"),
            ),
            ("--enable-admission-plugins=Nonsense", Some("is unknown")),
            (
                "--disable-admission-plugins=ServiceAccount,NodeRestriction",
                None,
            ),
            (
                "--disable-admission-plugins=PodSecurity",
                Some("cannot turn the admission plugin PodSecurity off"),
            ),
            ("--disable-admission-plugins=Nonsense", Some("is unknown")),
            (
                "--admission-control=PodSecurity",
                Some("--enable-admission"),
            ),
            (
                "--admission-control-config-file=f",
                Some("cannot be configured"),
            ),
            ("--tls-min-version=VersionTLS12", None),
            (
                "--tls-min-version=VersionTLS13",
                Some("also speaks TLS 1.2"),
            ),
            (suites.as_str(), None),
            (
                "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                Some("Optik also offers TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
            ),
            ("--tls-sni-cert-key=a,b", Some("one certificate")),
            ("--audit-webhook-config-file=f", Some("to a file only")),
            (
                "--audit-log-mode=blocking-strict",
                Some("goes on if it cannot"),
            ),
            ("--audit-log-path=-", Some("to a file")),
            ("--service-cluster-ip-range=10.0.0.0/24", None),
            (
                "--service-cluster-ip-range=10.0.0.0/24,fd00::/112",
                Some("one IPv4 network"),
            ),
            (
                "--service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24",
                Some("one IPv4 network"),
            ),
            (
                "--authorization-mode=Node,RBAC",
                Some("no authorizer for nodes"),
            ),
            (
                "--authorization-mode=RBAC,ABAC",
                Some("not supported by Optik"),
            ),
            (
                "--encryption-provider-config=f",
                Some("not supported by Optik"),
            ),
            ("--requestheader-client-ca-file=f", Some("front proxy")),
            ("--requestheader-username-headers=X-Remote-User", None),
            (
                "--oidc-issuer-url=https://i",
                Some("not supported by Optik"),
            ),
            (
                "--authentication-token-webhook-config-file=f",
                Some("not supported by Optik"),
            ),
            (
                "--enable-bootstrap-token-auth",
                Some("not supported by Optik"),
            ),
            ("--enable-bootstrap-token-auth=false", None),
            ("--service-account-lookup=false", Some("always does this")),
            ("--service-account-issuer=https://i", None),
            (
                "--service-account-issuer=https://i --service-account-issuer=https://j",
                Some("one issuer"),
            ),
            ("--event-ttl=1h0m0s", None),
            ("--event-ttl=24h0m0s", Some("for an hour")),
            ("--etcd-compaction-interval=0", Some("every five minutes")),
            ("--service-node-port-range=1-65535", Some("30000-32767")),
            (
                "--allow-privileged --profiling=false --feature-gates=A=true",
                None,
            ),
        ] {
            let line = format!("kube-apiserver --etcd-servers=http://127.0.0.1:1 {flag}");
            match (run(&line), refusal) {
                (CommandLine::Run { words, .. }, None) => {
                    Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{flag}: {error}"));
                }
                (CommandLine::Reject { text, exit: 1 }, Some(refusal)) => {
                    assert!(text.contains(refusal), "{flag}: {text}");
                }
                (other, _) => panic!("{flag}: {other:?}"),
            }
        }
    }

    #[test]
    fn alternative_flag_spellings_are_translated() {
        expect(
            "etcd -name x --listen-client-urls http://localhost:4001",
            "optik serve --etcd-only --etcd-listen=127.0.0.1:4001 --data=x.etcd \
             --history-age=8760h",
            "",
        );
        expect(
            "kube-apiserver --etcd-servers=http://a:1,http://b:2 -v=4 --secure-port 31004",
            "optik serve --etcd=http://a:1,http://b:2 --listen=0.0.0.0:31004 \
             --authorization-mode=AlwaysAllow --controllers=",
            "v",
        );
    }

    #[test]
    fn help_lists_flags_as_envtest_expects() {
        let line_of = |help: &str, flag: &str| {
            help.lines()
                .any(|line| line.trim_start() == format!("--{flag}"))
        };
        let CommandLine::Print(help) = run("etcd --help") else {
            panic!("no help");
        };
        assert!(line_of(&help, "unsafe-no-fsync"), "{help}");
        let CommandLine::Print(help) = run("kube-apiserver --help") else {
            panic!("no help");
        };
        assert!(line_of(&help, "etcd-servers") && !line_of(&help, "insecure-port"));
        assert_eq!(parse(&["optik".into(), "serve".into()]), None);
    }
}
