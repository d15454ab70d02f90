//! A client that keeps a copy of a collection by watching, and writes down what it is
//! shown.
//!
//! The protocol does not show what was there before an event; whoever watches knows it
//! from before. So the copy is what an event is held against, and a copy that went
//! wrong is noticed by the judge as a previous value that never was.

use crate::collection::{Collection, item_of, revision_of};
use crate::connection::{Connection, Lines};
use optik_store_testkit::history::{
    Ending, Item, Note, Outcome, Recorder, Request, Seen, Session, Span, Wanted,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a watcher begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// With a list, and a watch from there.
    List,
    /// With a watch that tells the state first, of this age.
    Stream(Wanted),
    /// With nothing, at a revision at which there was nothing.
    Nothing(u64),
}

#[derive(Clone, Debug)]
pub struct Habit {
    pub name: &'static str,
    pub beginning: Beginning,
    /// It leaves after so many events, and comes back.
    pub leaves_after: usize,
    /// The only object it asks for.
    pub only: Option<&'static str>,
    /// It wants a bookmark before it goes.
    pub wants_bookmark: bool,
}

#[derive(Debug)]
pub struct Watcher {
    pub url: String,
    pub collection: Collection,
    pub recorder: Arc<Recorder>,
    pub number: u32,
    pub habit: Habit,
}

/// What has been seen so far.
#[derive(Debug, Default)]
struct Replica {
    /// The revision up to which it is right.
    revision: u64,
    items: BTreeMap<String, Item>,
}

impl Watcher {
    /// Watches until the last event is seen: an object with this value.
    pub async fn until(self, last: &str) {
        let (mut replica, mut begun) = self.begin().await;
        loop {
            let lines = match begun.take() {
                Some(lines) => Ok(lines),
                None => self.open(&self.from(replica.revision)).await,
            };
            let Ok(lines) = lines else { continue };
            let mut session = self.session(replica.revision + 1);
            let finished = self.read(lines, &mut replica, &mut session, last).await;
            self.recorder.watched(session);
            if finished {
                return;
            }
        }
    }

    fn session(&self, from: u64) -> Session {
        Session {
            watcher: format!("{} {}", self.habit.name, self.number),
            span: self.span(),
            from,
            notes: Vec::new(),
            ending: Ending::Stopped,
        }
    }

    fn span(&self) -> Span {
        match self.habit.only {
            Some(name) => Span::one(&self.collection.key(name)),
            None => self.collection.span(),
        }
    }

    fn path(&self, query: &str) -> String {
        let selector = match self.habit.only {
            Some(name) => format!("&fieldSelector=metadata.name%3D{name}"),
            None => String::new(),
        };
        format!("{}?{query}{selector}", self.collection.path())
    }

    fn from(&self, revision: u64) -> String {
        // The bookmark before the end comes two seconds before it.
        let life = if self.habit.wants_bookmark { 3 } else { 300 };
        self.path(&format!(
            "watch=true&allowWatchBookmarks=true&resourceVersion={revision}&timeoutSeconds={life}"
        ))
    }

    async fn open(&self, path: &str) -> Result<Lines, crate::connection::Trouble> {
        Connection::to(&self.url).stream(path).await
    }

    /// The state to begin with, and perhaps the stream that told it.
    async fn begin(&self) -> (Replica, Option<Lines>) {
        loop {
            let wanted = match self.habit.beginning {
                Beginning::Nothing(revision) => {
                    let items = BTreeMap::new();
                    return (Replica { revision, items }, None);
                }
                Beginning::List => Wanted::Latest,
                Beginning::Stream(wanted) => wanted,
            };
            let begun = self.recorder.begin();
            let (replica, lines) = match self.habit.beginning {
                Beginning::Stream(wanted) => self.begin_streaming(wanted).await.unzip(),
                _ => (self.begin_listing().await, None),
            };
            let outcome = match &replica {
                Some(replica) => Outcome::Found {
                    revision: replica.revision,
                    items: replica.items.values().cloned().collect(),
                },
                None => Outcome::Failed,
            };
            let request = Request::Read {
                span: self.span(),
                state: wanted,
            };
            self.recorder.end(self.number, begun, request, outcome);
            if let Some(replica) = replica {
                return (replica, lines);
            }
        }
    }

    async fn begin_listing(&self) -> Option<Replica> {
        let mut connection = Connection::to(&self.url);
        let path = self.path("");
        let list = connection.ask(http::Method::GET, &path, None).await.ok()?;
        let items = list.body["items"].as_array().expect("a list has items");
        let items = items.iter().map(item_of);
        Some(Replica {
            revision: revision_of(&list.body),
            items: items.map(|item| (item.key.clone(), item)).collect(),
        })
    }

    async fn begin_streaming(&self, wanted: Wanted) -> Option<(Replica, Lines)> {
        let age = match wanted {
            Wanted::Any => "&resourceVersion=0",
            _ => "",
        };
        let query = format!(
            "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
             &allowWatchBookmarks=true{age}"
        );
        let mut lines = self.open(&self.path(&query)).await.ok()?;
        let mut replica = Replica::default();
        loop {
            let line = lines.next().await?;
            let object = &line["object"];
            match line["type"].as_str() {
                Some("ADDED") => {
                    let item = item_of(object);
                    replica.items.insert(item.key.clone(), item);
                }
                Some("BOOKMARK") => {
                    let end = &object["metadata"]["annotations"]["k8s.io/initial-events-end"];
                    assert_eq!(*end, "true", "the first bookmark ends the state");
                    replica.revision = revision_of(object);
                    return Some((replica, lines));
                }
                _ => panic!("not of a state: {line}"),
            }
        }
    }

    /// Reads to the end of the stream, or as long as the habit says. True if the last
    /// event has been seen.
    async fn read(
        &self,
        mut lines: Lines,
        replica: &mut Replica,
        session: &mut Session,
        last: &str,
    ) -> bool {
        let mut events = 0;
        let mut last_at = None;
        while let Some(line) = lines.next().await {
            let note = replica.note(&line);
            if let Note::Batch(seen) = &note {
                events += 1;
                let is_last = |item: &Item| item.value == last;
                let found = seen.iter().find(|e| e.item.as_ref().is_some_and(is_last));
                last_at = last_at.or(found.map(|event| event.revision));
            }
            let bookmark = matches!(note, Note::Bookmark(_));
            session.notes.push(note);
            let finished = last_at.is_some_and(|at| replica.revision >= at)
                && (bookmark || !self.habit.wants_bookmark);
            if finished || events >= self.habit.leaves_after {
                session.ending = Ending::Left;
                return finished;
            }
        }
        assert!(
            last_at.is_none(),
            "a stream ends only with the bookmark that was asked for"
        );
        false
    }
}

impl Replica {
    /// What a line says, held against what was known.
    fn note(&mut self, line: &Value) -> Note {
        let object = &line["object"];
        let event_type = line["type"].as_str().unwrap_or_default();
        let revision = match event_type {
            "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" => revision_of(object),
            _ => panic!("nothing is expected to go wrong: {line}"),
        };
        self.revision = self.revision.max(revision);
        if event_type == "BOOKMARK" {
            return Note::Bookmark(revision);
        }
        let shown = item_of(object);
        let key = shown.key.clone();
        let (prior, item) = if event_type == "DELETED" {
            // A deletion shows what was there; only its revision is known from before.
            let known = self.items.remove(&key);
            let mod_revision = known.map_or(0, |known| known.mod_revision);
            let prior = Item {
                mod_revision,
                ..shown
            };
            (Some(prior), None)
        } else {
            (self.items.insert(key.clone(), shown.clone()), Some(shown))
        };
        Note::Batch(vec![Seen {
            revision,
            key,
            item,
            prior,
            created: event_type == "ADDED",
        }])
    }
}
