//! The transaction driver: which rows it asks for, in which order it locks and decides, and what it refuses to save.
//!
//! The tests play the store. They serve each load from a small table, and look at the loads and at the changes in the end.

mod cache;
mod deferred;
mod gates;
mod hand_over;
mod loads;
mod lock_order;
mod phases;
mod process;
mod rules;
mod search;
mod table;
