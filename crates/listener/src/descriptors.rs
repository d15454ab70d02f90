//! The limit of open file descriptors, and the share of it for connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that connections must not use: the store's files, connections to etcd and to
/// webhooks, logs, certificates, the runtime itself.
const RESERVED_DESCRIPTORS_MAX: u64 = 1024;

/// Raises the soft limit of file descriptors to the hard limit; returns the resulting limit.
///
/// Processes usually start with a soft limit of 1,024, for the sake of programs that use `select`.
/// Other programs are expected to raise it themselves.
pub fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "cannot raise the limit of open files");
        }
    }
    // No limit is treated as a very high one.
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many of `limit` descriptors are for connections: at least half of them.
#[must_use]
pub fn for_connections(limit: u64) -> usize {
    let reserved = RESERVED_DESCRIPTORS_MAX.min(limit / 2);
    usize::try_from(limit - reserved).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_store() {
        for (limit, connections) in [
            (0, 0),
            (200, 100),
            (1024, 512),
            (4096, 3072),
            (1_048_576, 1_047_552),
        ] {
            assert_eq!(for_connections(limit), connections, "{limit}");
        }
    }

    #[test]
    fn descriptor_limit_is_raised_to_the_hard_limit() {
        let raised = raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current.unwrap_or(u64::MAX), raised);
        assert_eq!(limit.current, limit.maximum);
    }
}
