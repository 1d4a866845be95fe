//! The transaction driver: the rows it loads, the order in which it locks and decides, and the changes it refuses to
//! save.
//!
//! The tests act as the store. They serve each load from a small table, and inspect the loads and the final changes.

mod cache;
mod deferred;
mod gates;
mod hand_over;
mod loads;
mod lock_order;
mod payloads;
mod phases;
mod process;
mod rules;
mod search;
mod table;
