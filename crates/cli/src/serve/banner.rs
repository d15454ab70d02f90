//! The banner that `optik serve` prints when it is ready: addresses, files and the next commands.

use super::ServeArgs;
use super::default_files::DefaultFiles;
use optik::{OpenedStore, Optik};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) struct Banner {
    /// The server URL in the kubeconfig.
    api: Option<String>,
    kubeconfig: PathBuf,
    plain: Option<SocketAddr>,
    etcd: Option<SocketAddr>,
    data_location: String,
    revision_summary: String,
}

impl Banner {
    pub(super) fn new(args: &ServeArgs, files: &DefaultFiles, optik: &Optik) -> Self {
        let data_location = if args.ephemeral {
            "memory only; gone when the server stops".to_owned()
        } else if args.etcd.is_empty() {
            args.data.display().to_string()
        } else {
            args.etcd.join(", ")
        };
        let OpenedStore { revision, keys } = optik.opened_store();
        let kubeconfig = files.kubeconfig(args.access.kubeconfig_out.as_deref());
        Self {
            api: optik.url().map(str::to_owned),
            kubeconfig: std::path::absolute(&kubeconfig).unwrap_or(kubeconfig),
            plain: optik.insecure_address(),
            etcd: optik.etcd_address(),
            data_location,
            revision_summary: format!("revision {revision}, {keys} keys"),
        }
    }

    pub(super) fn render(&self, took: Duration) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let mut lines = vec![format!(
            "optik {version} is ready after {:.0} ms",
            took.as_secs_f64() * 1e3
        )];
        let mut line = |name: &str, text: &str| lines.push(format!("  {name:9} {text}"));
        line(
            "API",
            self.api
                .as_deref()
                .unwrap_or("off; this is the store alone"),
        );
        if let Some(address) = self.plain {
            let text = format!("http://{address}, where everybody is an administrator");
            line("", &text);
        }
        line("data", &self.data_location);
        line("", &self.revision_summary);
        match self.etcd {
            Some(address) => {
                line("etcd", &format!("http://{address}"));
                let put = format!("etcdctl --endpoints {address} put hello world");
                line("", &put);
            }
            None => line("etcd", "off; --etcd-listen lets etcdctl in"),
        }
        if self.api.is_some() {
            let kubeconfig = shell_quote(&self.kubeconfig);
            line("use", &format!("export KUBECONFIG={kubeconfig}"));
            line("try", "kubectl get namespaces");
        }
        line("stop", "Ctrl-C");
        lines.join("\n")
    }
}

/// The path, quoted for a shell if necessary.
fn shell_quote(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@".contains(c);
    if text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banner_quotes_paths_for_the_shell() {
        for (path, expected) in [
            ("/data/kubeconfig", "/data/kubeconfig"),
            ("/my data/k", "'/my data/k'"),
            ("/it's/$HOME", r"'/it'\''s/$HOME'"),
        ] {
            assert_eq!(shell_quote(Path::new(path)), expected);
        }
    }
}
