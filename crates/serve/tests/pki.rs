//! Tests of certificates in a directory, and of the kubeconfig.

mod support;

use optik_platform::{SystemEntropy, UnixMillis};
use optik_serve::pki::{
    IssuanceContext, Pki, PkiError, create_authority, server_names, write_private,
};
use optik_serve::{Kubeconfig, TlsMaterial};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use support::{LOCALHOST, material, now};

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

fn names(host: &str) -> Vec<String> {
    server_names(LOCALHOST, Some(host))
}

fn open(directory: &Path, host: &str, now: UnixMillis) -> Result<Pki, PkiError> {
    let at = IssuanceContext {
        now,
        entropy: &SystemEntropy,
    };
    Pki::in_directory(directory, names(host), at)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn pki_directory_keeps_certificates_and_renews_expiring_ones() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("deep/pki");
    let first = open(&directory, "one", now()).unwrap();
    material(&first);
    assert_eq!(first.server_authority, first.authority);

    let again = open(&directory, "one", now()).unwrap();
    assert_eq!(again.server, first.server);
    assert_eq!(again.admin, first.admin);
    assert_eq!(again.authority, first.authority);

    let renamed = open(&directory, "two", now()).unwrap();
    assert_ne!(renamed.server, first.server, "it lacked a name");
    assert_eq!(renamed.admin, first.admin);
    assert_eq!(renamed.authority, first.authority);

    let early = UnixMillis(now().0 + 699 * DAY_MILLIS);
    assert_eq!(
        open(&directory, "two", early).unwrap().server,
        renamed.server
    );
    let late = UnixMillis(now().0 + 701 * DAY_MILLIS);
    let renewed = open(&directory, "two", late).unwrap();
    assert_ne!(renewed.server, renamed.server, "it ran out soon");
    assert_ne!(renewed.admin, renamed.admin);
    assert_eq!(renewed.authority, first.authority);
}

#[test]
fn pki_key_files_are_private() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("pki");
    open(&directory, "one", now()).unwrap();
    assert_eq!(mode(&directory), 0o700);
    for name in ["ca", "apiserver", "admin"] {
        assert_eq!(
            mode(&directory.join(format!("{name}.key"))),
            0o600,
            "{name}"
        );
        assert_eq!(
            mode(&directory.join(format!("{name}.crt"))),
            0o644,
            "{name}"
        );
    }
    let left: Vec<_> = fs::read_dir(&directory).unwrap().collect();
    assert_eq!(left.len(), 6, "no temporary files");
}

#[test]
fn pki_restricts_key_files_that_others_can_read() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path(), "one", now()).unwrap();
    let keys = ["ca.key", "apiserver.key", "admin.key"].map(|key| directory.path().join(key));
    for key in &keys {
        fs::set_permissions(key, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let second = open(directory.path(), "one", now()).unwrap();
    assert!(first.server == second.server && first.admin == second.admin);
    for key in &keys {
        assert_eq!(mode(key), 0o600, "{}", key.display());
    }
}

/// Servers that share an authority have certificates of their own, which are reused.
#[test]
fn shared_authority_issues_certificates_that_are_reused() {
    let at = |now| IssuanceContext {
        now,
        entropy: &SystemEntropy,
    };
    let authority = create_authority(at(now())).unwrap();
    let pki = |known: Option<&Pki>, host: &str, now| {
        Pki::issued_by(&authority, known, names(host), at(now)).unwrap()
    };
    let one = pki(None, "one", now());
    let two = pki(None, "two", now());
    assert_eq!(one.authority, two.authority);
    assert!(one.server != two.server);
    assert!(pki(Some(&one), "one", now()).server == one.server);
    assert!(pki(Some(&one), "two", now()).server != one.server);
    let late = UnixMillis(now().0 + 710 * DAY_MILLIS);
    assert!(pki(Some(&one), "one", late).server != one.server);
    let years = (one.authority_not_after().unwrap().0 - now().0) / (365 * DAY_MILLIS);
    assert!((9..=10).contains(&years), "{years}");
}

#[test]
fn pki_directory_keeps_a_foreign_server_certificate() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let theirs = pem(params.self_signed(&key).unwrap().der(), "CERTIFICATE");
    fs::write(directory.join("apiserver.crt"), &theirs).unwrap();
    let key = pem(&key.serialize_der(), "PRIVATE KEY");
    fs::write(directory.join("apiserver.key"), &key).unwrap();
    for _ in 0..2 {
        let pki = open(directory, "one", now()).unwrap();
        assert_eq!(pki.server.certificate, theirs);
        assert_eq!(pki.server_authority, theirs, "clients must trust it itself");
        assert_ne!(pki.authority, theirs);
        material(&pki);
    }
}

fn pem(der: &[u8], what: &str) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN {what}-----\n{text}\n-----END {what}-----\n")
}

#[test]
fn pki_directory_replaces_certificates_of_a_former_authority() {
    let scratch = tempfile::tempdir().unwrap();
    let first = open(scratch.path(), "one", now()).unwrap();
    for file in ["ca.crt", "ca.key"] {
        fs::remove_file(scratch.path().join(file)).unwrap();
    }
    let second = open(scratch.path(), "one", now()).unwrap();
    assert_ne!(second.authority, first.authority);
    assert_ne!(second.server, first.server);
    assert_ne!(second.admin, first.admin);
    assert_eq!(second.server_authority, second.authority);
}

#[test]
fn damaged_certificate_authority_error_names_the_file() {
    let scratch = tempfile::tempdir().unwrap();
    open(scratch.path(), "one", now()).unwrap();
    let admin_key = fs::read(scratch.path().join("admin.key")).unwrap();
    fs::write(scratch.path().join("ca.key"), admin_key).unwrap();
    let text = open(scratch.path(), "one", now()).unwrap_err().to_string();
    let reason = "ca.crt cannot be used: it does not belong to the key beside it";
    assert!(text.ends_with(reason), "{text}");
}

#[test]
fn kubeconfig_is_private_and_complete() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("new/kubeconfig");
    let pki = support::pki();
    let config = Kubeconfig {
        server: "https://127.0.0.1:6443",
        authority: &pki.server_authority,
        user: &pki.admin,
    };
    for _ in 0..2 {
        write_private(&path, config.to_yaml().as_bytes()).unwrap();
        assert_eq!(mode(&path), 0o600);
    }
    let text = fs::read_to_string(&path).unwrap();
    for part in [
        "\ncurrent-context: optik\n",
        "\n    server: https://127.0.0.1:6443\n",
        "\n    certificate-authority-data: LS0tLS1CRUdJTi",
        "\n    client-certificate-data: LS0tLS1CRUdJTi",
        "\n    client-key-data: LS0tLS1CRUdJTi",
    ] {
        assert!(text.contains(part), "{part}");
    }
}

/// Certificates are replaced in a running server: new connections get the new one, open connections
/// continue.
#[tokio::test]
async fn tls_certificates_are_reloaded_while_the_server_runs() {
    use support::client::{Client, HttpVersion};
    use support::{Port, ScriptedServer};
    let mut running = ScriptedServer::start(Port::Tls).await;
    let mut old = Client::certified(&running, HttpVersion::Http2, &running.pki.admin).await;
    assert_eq!(old.get("/who", &[]).await.status, 200);
    let before = running.pki.clone();
    let newer = support::pki();
    running.tls.as_ref().unwrap().replace(&material(&newer));
    assert_eq!(old.get("/who", &[]).await.status, 200);
    // This client trusts the new authority only.
    running.pki = newer.clone();
    let mut client = Client::certified(&running, HttpVersion::Http2, &newer.admin).await;
    assert_eq!(client.get("/who", &[]).await.status, 200);
    let mut outdated = Client::certified(&running, HttpVersion::Http2, &before.admin).await;
    assert_eq!(outdated.get("/who", &[]).await.status, 401);
}

#[test]
fn server_certificate_names_loopback_for_wildcard_address() {
    let names = server_names("0.0.0.0".parse().unwrap(), None);
    assert!(names.iter().all(|name| name != "0.0.0.0"), "{names:?}");
    assert!(names.contains(&"127.0.0.1".to_owned()));
}

/// Key formats that `openssl` has long written: SEC 1 with and without a block for its curve, and
/// PKCS#1. A key that does not match the certificate is rejected.
#[test]
fn tls_accepts_sec1_and_pkcs1_keys() {
    let pairs: [(&[u8], &[u8]); 3] = [
        (
            include_bytes!("keys/sec1.crt"),
            include_bytes!("keys/sec1.key"),
        ),
        (
            include_bytes!("keys/sec1-p384.crt"),
            include_bytes!("keys/sec1-p384.key"),
        ),
        (
            include_bytes!("keys/pkcs1.crt"),
            include_bytes!("keys/pkcs1.key"),
        ),
    ];
    for (at, (certificate, key)) in pairs.iter().enumerate() {
        TlsMaterial::new(certificate, key, b"").unwrap();
        let (_, other) = pairs[(at + 1) % pairs.len()];
        assert!(TlsMaterial::new(certificate, other, b"").is_err());
    }
}
