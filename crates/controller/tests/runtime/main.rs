//! Controllers on a whole server, with a misbehaving one in between: what is asked until
//! everything is quiet is counted.

mod backup;
mod caches;
mod duties;
mod faults;
mod leading;
mod mistakes;
mod scene;
mod webhooks;
