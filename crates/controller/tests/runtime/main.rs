//! Controllers against a complete server, with a fault-injecting proxy in between. The tests count
//! requests until all managers are idle.

mod backup;
mod caches;
mod faults;
mod fixture;
mod leader_election;
mod manager;
mod mistakes;
mod webhooks;
