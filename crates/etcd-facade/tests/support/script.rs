//! A script of requests, and a transcript of a server's responses.
//!
//! `recordings/etcd/etcd-3.6.8.txt` is the transcript of etcd; `examples/record.rs` wrote it.

use super::{
    WatchStream, compare, delete, delete_to, mod_is, op, op_delete, op_put, op_range, op_txn, put,
    range, range_to, txn, watch, watch_prefix,
};
use bytes::Bytes;
use futures::StreamExt;
use optik_etcd_api::etcdserverpb::auth_client::AuthClient;
use optik_etcd_api::etcdserverpb::cluster_client::ClusterClient;
use optik_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use optik_etcd_api::etcdserverpb::kv_client::KvClient;
use optik_etcd_api::etcdserverpb::lease_client::LeaseClient;
use optik_etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use optik_etcd_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use optik_etcd_api::etcdserverpb::request_op::Request as Operation;
use optik_etcd_api::etcdserverpb::watch_create_request::FilterType;
use optik_etcd_api::etcdserverpb::*;
use std::fmt::{Debug, Write};
use tonic::transport::Channel;
use tonic::{Response, Status};

/// Runs the script against an empty server at revision 1.
pub(crate) async fn run(channel: Channel) -> String {
    let mut script = Script {
        kv: KvClient::new(channel.clone()),
        lease: LeaseClient::new(channel.clone()),
        maintenance: MaintenanceClient::new(channel.clone()),
        channel,
        said: String::new(),
    };
    script.empty_store().await;
    script.ranges().await;
    script.puts().await;
    script.deletes().await;
    script.compares().await;
    script.transactions().await;
    script.refused_transactions().await;
    script.leases().await;
    script.watches().await;
    script.refused_watches().await;
    script.compaction().await;
    script.other_requests().await;
    script.said
}

struct Script {
    channel: Channel,
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
    maintenance: MaintenanceClient<Channel>,
    said: String,
}

impl Script {
    fn section(&mut self, title: &str) {
        writeln!(self.said, "\n# {title}").expect("writing to a String cannot fail");
    }

    fn record(&mut self, request: &str, answer: impl Debug) {
        let answer = format!("{answer:?}");
        writeln!(self.said, "{request}\n    {}", normalised(&answer)).expect("as above");
    }

    fn record_result<T: Debug>(&mut self, request: &str, answer: Result<Response<T>, Status>) {
        match answer {
            Ok(response) => self.record(request, response.into_inner()),
            Err(status) => {
                let text = format!("{:?}: {}", status.code(), status.message());
                writeln!(self.said, "{request}\n    {text}").expect("as above");
            }
        }
    }

    async fn range(&mut self, what: &str, request: RangeRequest) {
        let answer = self.kv.range(request).await;
        self.record_result(&format!("range: {what}"), answer);
    }

    async fn put(&mut self, what: &str, request: PutRequest) {
        let answer = self.kv.put(request).await;
        self.record_result(&format!("put: {what}"), answer);
    }

    async fn delete(&mut self, what: &str, request: DeleteRangeRequest) {
        let answer = self.kv.delete_range(request).await;
        self.record_result(&format!("delete: {what}"), answer);
    }

    async fn txn(&mut self, what: &str, request: TxnRequest) {
        let answer = self.kv.txn(request).await;
        self.record_result(&format!("txn: {what}"), answer);
    }

    async fn compact(&mut self, revision: i64) {
        let request = CompactionRequest {
            revision,
            physical: false,
        };
        let answer = self.kv.compact(request).await;
        self.record_result(&format!("compact: {revision}"), answer);
    }

    async fn empty_store(&mut self) {
        self.section("An empty store");
        self.range("a key", range("a")).await;
        self.range("no key", range("")).await;
        self.range("no key, but an end", range_to("", "z")).await;
        self.range("everything", range_to("\0", "\0")).await;
        self.delete("a key", delete("a")).await;
        self.delete("no key", delete("")).await;
        self.put("no key", put("", "v")).await;
        let future = RangeRequest {
            revision: 2,
            ..range("a")
        };
        self.range("a future revision", future).await;
    }

    async fn ranges(&mut self) {
        self.section("Ranges");
        for (key, value) in [("a", "5"), ("b", "4"), ("c", "3"), ("d", "2"), ("e", "1")] {
            self.put(key, put(key, value)).await;
        }
        for key in ["c", "a", "c"] {
            self.put(key, put(key, "6")).await;
        }
        self.range("a key", range("c")).await;
        self.range("up to d", range_to("a", "d")).await;
        self.range("from b", range_to("b", "\0")).await;
        self.range("the wrong way round", range_to("d", "a")).await;
        self.range("nothing in between", range_to("d", "d")).await;
        for revision in [-1, 0, 1, 2, 4, 9, 10] {
            let request = RangeRequest {
                revision,
                ..range_to("a", "z")
            };
            self.range(&format!("at {revision}"), request).await;
        }
        for limit in [-1, 0, 1, 4, 5, 6] {
            let request = RangeRequest {
                limit,
                ..range_to("a", "z")
            };
            self.range(&format!("limit {limit}"), request).await;
        }
        self.sorted_ranges().await;
        self.filtered_ranges().await;
    }

    async fn sorted_ranges(&mut self) {
        let orders = [SortOrder::None, SortOrder::Ascend, SortOrder::Descend];
        let targets = [
            SortTarget::Key,
            SortTarget::Version,
            SortTarget::Create,
            SortTarget::Mod,
            SortTarget::Value,
        ];
        for order in orders {
            for target in targets {
                for limit in [0, 3] {
                    let request = RangeRequest {
                        sort_order: order.into(),
                        sort_target: target.into(),
                        limit,
                        keys_only: true,
                        ..range_to("a", "z")
                    };
                    let what = format!("{order:?} by {target:?}, limit {limit}");
                    self.range(&what, request).await;
                }
            }
        }
        let bad_order = RangeRequest {
            sort_order: 9,
            ..range("a")
        };
        self.range("an unknown order", bad_order).await;
        let bad_target = RangeRequest {
            sort_target: -1,
            ..range("a")
        };
        self.range("an unknown target", bad_target).await;
    }

    async fn filtered_ranges(&mut self) {
        let all = || RangeRequest {
            keys_only: true,
            ..range_to("a", "z")
        };
        for (least, most, limit) in [
            (5, 0, 0),
            (0, 5, 0),
            (3, 8, 1),
            (-1, -1, 0),
            (-3, 0, 0),
            (100, 0, 2),
        ] {
            let by_mod = RangeRequest {
                min_mod_revision: least,
                max_mod_revision: most,
                limit,
                ..all()
            };
            let what = format!("changed in {least}..={most}, limit {limit}");
            self.range(&what, by_mod).await;
            let by_create = RangeRequest {
                min_create_revision: least,
                max_create_revision: most,
                limit,
                ..all()
            };
            let what = format!("created in {least}..={most}, limit {limit}");
            self.range(&what, by_create).await;
        }
        let counted = RangeRequest {
            count_only: true,
            limit: 2,
            ..all()
        };
        self.range("how many", counted).await;
        let counted = RangeRequest {
            count_only: true,
            min_mod_revision: 7,
            ..all()
        };
        self.range("how many, filtered", counted).await;
        let serializable = RangeRequest {
            serializable: true,
            ..range("a")
        };
        self.range("serializable", serializable).await;
    }

    async fn puts(&mut self) {
        self.section("Puts");
        let cases = [
            (
                "previous",
                PutRequest {
                    prev_kv: true,
                    ..put("a", "7")
                },
            ),
            (
                "no previous",
                PutRequest {
                    prev_kv: true,
                    ..put("p", "1")
                },
            ),
            (
                "keep the value",
                PutRequest {
                    ignore_value: true,
                    prev_kv: true,
                    ..put("p", "")
                },
            ),
            (
                "keep the value, but there is one",
                PutRequest {
                    ignore_value: true,
                    ..put("p", "x")
                },
            ),
            (
                "keep the value of nothing",
                PutRequest {
                    ignore_value: true,
                    ..put("nothing", "")
                },
            ),
            (
                "keep the lease",
                PutRequest {
                    ignore_lease: true,
                    ..put("p", "2")
                },
            ),
            (
                "keep the lease, but there is one",
                PutRequest {
                    ignore_lease: true,
                    lease: 5,
                    ..put("p", "2")
                },
            ),
            (
                "keep the lease of nothing",
                PutRequest {
                    ignore_lease: true,
                    ..put("nothing", "2")
                },
            ),
            (
                "no such lease",
                PutRequest {
                    lease: 5,
                    ..put("p", "2")
                },
            ),
            ("an empty value", put("p", "")),
        ];
        for (what, request) in cases {
            self.put(what, request).await;
        }
        self.put("too large", put("p", vec![b'x'; 1_572_900])).await;
        self.range("after that", range("p")).await;
    }

    async fn deletes(&mut self) {
        self.section("Deletes");
        let with_previous = |request| DeleteRangeRequest {
            prev_kv: true,
            ..request
        };
        self.delete("nothing", delete("nothing")).await;
        self.delete("nothing, previous", with_previous(delete("nothing")))
            .await;
        self.delete("the wrong way round", delete_to("z", "a"))
            .await;
        self.delete("a key", delete("p")).await;
        self.delete("again", delete("p")).await;
        self.delete("some", with_previous(delete_to("a", "c")))
            .await;
        self.delete("the rest", delete_to("a", "\0")).await;
        self.put("it begins anew", put("a", "1")).await;
        self.range("version 1", range("a")).await;
    }

    async fn compares(&mut self) {
        self.section("Compares");
        let relations = [
            CompareResult::Equal,
            CompareResult::NotEqual,
            CompareResult::Greater,
            CompareResult::Less,
        ];
        let operands = [
            (CompareTarget::Version, TargetUnion::Version(0)),
            (CompareTarget::Version, TargetUnion::Version(1)),
            (CompareTarget::Version, TargetUnion::Version(-1)),
            (CompareTarget::Create, TargetUnion::CreateRevision(0)),
            (CompareTarget::Mod, TargetUnion::ModRevision(0)),
            (CompareTarget::Mod, TargetUnion::ModRevision(-7)),
            (CompareTarget::Lease, TargetUnion::Lease(0)),
            (CompareTarget::Value, TargetUnion::Value(Bytes::new())),
            (
                CompareTarget::Value,
                TargetUnion::Value(Bytes::from_static(b"1")),
            ),
            // An operand of another type than the target.
            (CompareTarget::Version, TargetUnion::Lease(1)),
            (CompareTarget::Value, TargetUnion::Version(1)),
        ];
        for key in ["a", "missing"] {
            for relation in relations {
                for (target, than) in &operands {
                    let what = format!("{key} {target:?} {relation:?} {than:?}");
                    let condition = compare(key, *target, relation, than.clone());
                    let answer = self.kv.txn(txn(vec![condition], vec![], vec![])).await;
                    self.record_result(&what, answer.map(|r| r.map(|r| r.succeeded)));
                }
            }
        }
        self.put("b", put("b", "1")).await;
        for (end, than) in [("z", "1"), ("z", "2"), ("a", "1"), ("\0", "1")] {
            let value = TargetUnion::Value(than.as_bytes().to_vec().into());
            let condition = Compare {
                range_end: end.as_bytes().to_vec().into(),
                ..compare("a", CompareTarget::Value, CompareResult::Equal, value)
            };
            let what = format!("a to {end:?} all equal {than}");
            self.txn(&what, txn(vec![condition], vec![], vec![])).await;
        }
        let empty_range = Compare {
            range_end: Bytes::from_static(b"y"),
            ..compare(
                "x",
                CompareTarget::Version,
                CompareResult::Equal,
                TargetUnion::Version(0),
            )
        };
        self.txn("an empty range", txn(vec![empty_range], vec![], vec![]))
            .await;
        self.txn("no key", txn(vec![mod_is("", 0)], vec![], vec![]))
            .await;
    }

    async fn transactions(&mut self) {
        self.section("Transactions");
        self.txn("nothing", txn(vec![], vec![], vec![])).await;
        let create = txn(vec![mod_is("t", 0)], vec![op_put("t", "1")], vec![]);
        self.txn("create", create.clone()).await;
        self.txn("create again", create).await;
        let stale = txn(
            vec![mod_is("t", 1)],
            vec![op_put("t", "2")],
            vec![op_range("t")],
        );
        self.txn("a stale update", stale).await;
        let own_writes = vec![
            op_range("t"),
            op_delete("missing"),
            op_range("u"),
            op_put("u", "1"),
            op_range("u"),
            op_delete("missing"),
            op_delete("t"),
            op_range("t"),
        ];
        self.txn("sees its own writes", txn(vec![], own_writes, vec![]))
            .await;
        self.txn(
            "deletes nothing",
            txn(vec![], vec![op_delete("missing"), op_range("u")], vec![]),
        )
        .await;
        let inner = txn(
            vec![mod_is("n", 0)],
            vec![op_put("n2", "inner"), op_range("n")],
            vec![op_put("n2", "not this")],
        );
        let nested = txn(
            vec![],
            vec![op_put("n", "outer"), op_txn(inner), op_range("n2")],
            vec![],
        );
        self.txn("nested, decided before the first write", nested)
            .await;
        let reading = txn(
            vec![],
            vec![op_txn(txn(vec![], vec![op_range("n")], vec![]))],
            vec![],
        );
        self.txn("nested, reading", reading).await;
        let delete_twice = txn(vec![], vec![op_delete("n"), op_delete("n")], vec![]);
        self.txn("deletes twice", delete_twice).await;
        let sorted = op(Operation::RequestRange(RangeRequest {
            sort_order: SortOrder::Descend.into(),
            limit: 1,
            ..range_to("a", "z")
        }));
        self.txn("sorts", txn(vec![], vec![sorted], vec![])).await;
        let previous = vec![
            op(Operation::RequestPut(PutRequest {
                prev_kv: true,
                ..put("u", "2")
            })),
            op(Operation::RequestDeleteRange(DeleteRangeRequest {
                prev_kv: true,
                ..delete_to("n", "o")
            })),
        ];
        self.txn("previous", txn(vec![], previous, vec![])).await;
    }

    async fn refused_transactions(&mut self) {
        self.section("Transactions that are refused");
        let unconditional = |success| txn(vec![], success, vec![]);
        let twice = vec![op_put("x", "1"), op_put("x", "2")];
        self.txn("puts twice", unconditional(twice.clone())).await;
        let conditional = txn(vec![mod_is("x", 77)], twice.clone(), vec![]);
        self.txn("puts twice where it is not reached", conditional)
            .await;
        let overlap = vec![
            op(Operation::RequestDeleteRange(delete_to("w", "z"))),
            op_put("x", "1"),
        ];
        self.txn("puts and deletes", unconditional(overlap)).await;
        let in_branches = op_txn(txn(vec![], vec![op_put("x", "1")], vec![op_put("x", "2")]));
        self.txn("in both branches", unconditional(vec![in_branches.clone()]))
            .await;
        self.txn(
            "in a branch and beside it",
            unconditional(vec![op_put("x", "1"), in_branches]),
        )
        .await;
        let nested_delete = op_txn(txn(vec![], vec![op_delete("x")], vec![]));
        self.txn(
            "deletes in a branch what is put beside it",
            unconditional(vec![nested_delete, op_put("x", "1")]),
        )
        .await;
        let many = |count: usize| -> Vec<_> {
            let keys = (0..count).map(|n| format!("many/{n:03}"));
            keys.map(|key| op_range(&key)).collect()
        };
        self.txn("129 operations", unconditional(many(129))).await;
        let compares = vec![mod_is("x", 0); 129];
        self.txn("129 compares", txn(compares, vec![], vec![]))
            .await;
        let crowded: Vec<_> = many(126)
            .into_iter()
            .chain([op_txn(unconditional(many(2)))])
            .collect();
        self.txn(
            "what a nested one may have is what is left",
            unconditional(crowded),
        )
        .await;
        self.txn(
            "no operation",
            unconditional(vec![RequestOp { request: None }]),
        )
        .await;
        self.txn("no key", unconditional(vec![op_range("")])).await;
        self.txn("no key to put", unconditional(vec![op_put("", "")]))
            .await;
        self.txn("no key to delete", unconditional(vec![op_delete("")]))
            .await;
        for revision in [-2, 1, 1000] {
            let read = op(Operation::RequestRange(RangeRequest {
                revision,
                count_only: true,
                ..range("a")
            }));
            let what = format!("reads at {revision}");
            self.txn(&what, unconditional(vec![read])).await;
        }
        let refused_puts = [
            (
                "keeps the value of nothing",
                PutRequest {
                    ignore_value: true,
                    ..put("nothing", "")
                },
            ),
            (
                "no such lease",
                PutRequest {
                    lease: 9,
                    ..put("x", "1")
                },
            ),
            (
                "value provided",
                PutRequest {
                    ignore_value: true,
                    ..put("x", "1")
                },
            ),
        ];
        for (what, refused) in refused_puts {
            let success = vec![op_put("y", "1"), op(Operation::RequestPut(refused))];
            self.txn(what, unconditional(success.clone())).await;
            let unreached = txn(vec![mod_is("x", 77)], success, vec![]);
            let what = format!("{what}, where it is not reached");
            self.txn(&what, unreached).await;
        }
        self.range("nothing of it happened", range_to("x", "z"))
            .await;
    }

    async fn leases(&mut self) {
        self.section("Leases");
        for (id, ttl) in [
            (100, 60),
            (100, 60),
            (101, 0),
            (102, -5),
            (103, 1),
            (104, 9_000_000_000),
            (105, 9_000_000_001),
            (-7, 60),
        ] {
            let answer = self.lease.lease_grant(LeaseGrantRequest { ttl, id }).await;
            self.record_result(&format!("grant: {id} for {ttl}"), answer);
        }
        for id in [101, 102, 103, 104, -7] {
            let answer = self.lease.lease_revoke(LeaseRevokeRequest { id }).await;
            self.record_result(&format!("revoke: {id}"), answer);
        }
        let bound = |key, value| PutRequest {
            lease: 100,
            ..put(key, value)
        };
        self.put("with a lease", bound("l1", "1")).await;
        self.put("with a lease", bound("l2", "1")).await;
        self.put("without again", put("l2", "2")).await;
        let kept = PutRequest {
            ignore_lease: true,
            ..put("l1", "2")
        };
        self.put("keeping it", kept).await;
        self.put("with a lease", bound("l3", "1")).await;
        self.range("which lease", range_to("l", "m")).await;
        for (id, keys) in [(100, true), (100, false), (404, true)] {
            let request = LeaseTimeToLiveRequest { id, keys };
            let answer = self.lease.lease_time_to_live(request).await;
            let answer = answer.map(|response| {
                response.map(|mut response| {
                    // The remaining TTL depends on the speed of the test.
                    response.ttl = response.ttl.signum();
                    response
                })
            });
            self.record_result(&format!("time to live: {id}, keys {keys}"), answer);
        }
        let answer = self.lease.lease_leases(LeaseLeasesRequest {}).await;
        self.record_result("leases", answer);
        self.keep_alive().await;
        for id in [100, 100, 404] {
            let answer = self.lease.lease_revoke(LeaseRevokeRequest { id }).await;
            self.record_result(&format!("revoke: {id}"), answer);
        }
        self.range("its keys are gone", range_to("l", "m")).await;
    }

    async fn keep_alive(&mut self) {
        let requests = [100, 404, 0].map(|id| LeaseKeepAliveRequest { id });
        let requests = futures::stream::iter(requests);
        let responses = self.lease.lease_keep_alive(requests).await;
        let mut responses = responses.expect("a stream").into_inner();
        while let Some(Ok(response)) = responses.next().await {
            self.record("keep alive", response);
        }
    }

    async fn watches(&mut self) {
        self.section("Watches");
        let start = self.header_revision().await + 1;
        self.put("w/a", put("w/a", "1")).await;
        self.put("w/a", put("w/a", "2")).await;
        let both = txn(vec![], vec![op_put("w/b", "1"), op_put("w/c", "1")], vec![]);
        self.txn("two keys", both).await;
        self.delete("both", delete_to("w/b", "w/d")).await;

        let filtered = |filter: FilterType| WatchCreateRequest {
            filters: vec![filter.into()],
            ..watch_prefix("w/", start)
        };
        let previous = WatchCreateRequest {
            prev_kv: true,
            ..watch_prefix("w/", start)
        };
        let everything = WatchCreateRequest {
            range_end: Bytes::from_static(b"\0"),
            ..watch("", start)
        };
        for (what, request, events) in [
            ("all", watch_prefix("w/", start), 6),
            ("one key", watch("w/a", start), 2),
            ("later", watch_prefix("w/", start + 2), 4),
            ("previous", previous, 6),
            ("no puts", filtered(FilterType::Noput), 2),
            ("no deletes", filtered(FilterType::Nodelete), 4),
            ("everything", everything, 6),
        ] {
            self.watch_events(what, request, events).await;
        }
    }

    /// The events of a watch, independent of their distribution to responses.
    async fn watch_events(&mut self, what: &str, request: WatchCreateRequest, count: usize) {
        let mut stream = WatchStream::open(self.channel.clone());
        stream.create(request);
        let created = stream.next().await;
        self.record(&format!("watch: {what}"), created);
        let mut seen = 0;
        while seen < count {
            let response = stream.next().await;
            seen += response.events.len();
            for event in response.events {
                self.record("event", event);
            }
        }
    }

    async fn refused_watches(&mut self) {
        self.section("Watches that are refused, and their ids");
        let mut stream = WatchStream::open(self.channel.clone());
        let with_id = |watch_id| WatchCreateRequest {
            watch_id,
            ..watch("w/a", 0)
        };
        let reversed = WatchCreateRequest {
            range_end: Bytes::from_static(b"a"),
            ..watch("b", 0)
        };
        for (what, request) in [
            ("a negative start", watch("w/a", -1)),
            ("the wrong way round", reversed),
            ("any id", with_id(0)),
            ("id 1", with_id(1)),
            ("any id, behind it", with_id(0)),
            ("id 7", with_id(7)),
            ("id 7 again", with_id(7)),
            ("any id", with_id(0)),
            ("a future start", watch("w/a", 1_000_000)),
        ] {
            stream.create(request);
            let reply = stream.next().await;
            self.record(&format!("watch: {what}"), reply);
        }
        stream.cancel(99);
        stream.cancel(7);
        let reply = stream.next().await;
        self.record("cancel 99 and 7", reply);
        stream.create(with_id(7));
        let reply = stream.next().await;
        self.record("watch: id 7 is free again", reply);
        self.progress().await;
    }

    async fn progress(&mut self) {
        let mut stream = WatchStream::open(self.channel.clone());
        stream.created(watch("w/a", 0)).await;
        stream.created(watch("w/b", 0)).await;
        stream.ask_progress();
        let reply = stream.next().await;
        self.record("progress", reply);
        self.put("an event", put("w/a", "3")).await;
        let event = stream.next().await;
        self.record("watch", event);
    }

    async fn compaction(&mut self) {
        self.section("Compaction");
        let newest = self.header_revision().await;
        self.compact(-1).await;
        self.compact(0).await;
        self.compact(newest + 1).await;
        self.compact(newest - 2).await;
        self.compact(newest - 2).await;
        self.compact(newest - 3).await;
        self.compact(0).await;
        for revision in [1, newest - 3, newest - 2, newest] {
            let request = RangeRequest {
                revision,
                count_only: true,
                ..range("a")
            };
            self.range(&format!("at {revision}"), request).await;
        }
        let read = op(Operation::RequestRange(RangeRequest {
            revision: newest - 3,
            ..range("a")
        }));
        self.txn("reads what is compacted", txn(vec![], vec![read], vec![]))
            .await;
        let mut stream = WatchStream::open(self.channel.clone());
        for (start, replies) in [(newest - 3, 2), (1, 2), (newest - 2, 1)] {
            stream.create(watch("nobody", start));
            for _ in 0..replies {
                let reply = stream.next().await;
                self.record(&format!("watch from {start}"), reply);
            }
        }
        for revision in [newest - 3, newest + 1] {
            let request = HashKvRequest { revision };
            let answer = self.maintenance.hash_kv(request).await;
            self.record_result(&format!("hash at {revision}"), answer);
        }
        self.compact(newest).await;
        self.range("the newest is still there", range("w/a")).await;
    }

    async fn other_requests(&mut self) {
        self.section("The rest");
        let answer = self.maintenance.defragment(DefragmentRequest {}).await;
        self.record_result("defragment", answer);
        let answer = self.maintenance.alarm(AlarmRequest::default()).await;
        self.record_result("alarms", answer);
        let request = MoveLeaderRequest { target_id: 1 };
        let answer = self.maintenance.move_leader(request).await;
        self.record_result("move leader", answer);
        let hash = self.maintenance.hash_kv(HashKvRequest { revision: 0 });
        let hash = hash.await.map(|response| {
            response.map(|mut response| {
                // The hash differs between implementations.
                response.hash = u32::from(response.hash != 0);
                response
            })
        });
        self.record_result("hash", hash);
        let members = ClusterClient::new(self.channel.clone())
            .member_list(MemberListRequest { linearizable: true })
            .await;
        let members = members.map(|response| response.map(|r| (r.header, r.members.len())));
        self.record_result("members", members);
        let mut auth = AuthClient::new(self.channel.clone());
        let answer = auth.auth_status(AuthStatusRequest {}).await;
        self.record_result("auth status", answer);
        let answer = auth.user_list(AuthUserListRequest {}).await;
        self.record_result("users", answer);
        let answer = auth.role_list(AuthRoleListRequest {}).await;
        self.record_result("roles", answer);
        let answer = auth.authenticate(AuthenticateRequest::default()).await;
        self.record_result("authenticate", answer);
    }

    async fn header_revision(&mut self) -> i64 {
        let response = self.kv.range(range("a")).await.expect("a range");
        response.into_inner().header.expect("a header").revision
    }
}

/// Ids and terms differ between servers; whether they are present does not.
fn normalised(answer: &str) -> String {
    let fields = ["cluster_id: ", "member_id: ", "raft_term: "];
    fields.iter().fold(answer.to_owned(), |text, field| {
        let mut parts = text.split(field);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let digits = part.find(|c: char| !c.is_ascii_digit());
            let (number, rest) = part.split_at(digits.unwrap_or(part.len()));
            let number = if number == "0" { "0" } else { "N" };
            out.extend([field, number, rest]);
        }
        out
    })
}
