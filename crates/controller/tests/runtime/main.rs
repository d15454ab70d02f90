//! Controllers on a whole server, with a misbehaving one in between: what is asked until
//! everything is quiet is counted.

mod backup;
mod caches;
mod faults;
mod fixture;
mod leader_election;
mod manager;
mod mistakes;
mod webhooks;
