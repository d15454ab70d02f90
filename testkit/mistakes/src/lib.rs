//! Mistakes that people make with optimistic concurrency, as `tests/cases/*.rs`. Each
//! must be refused by the compiler, for the reason that stands beside it.
