//! What happens without anybody asking: garbage is collected, namespaces go, and what
//! every namespace has is there.
//!
//! Names end in the numbers of the assertions of the contract on extension.

mod collecting;
mod many;
mod namespaces;
mod pods;
mod security;
mod typing;
mod world;
