//! The checked-in stores of earlier builds, opened by this one: everything in them is read over HTTP and compared field by
//! field, and what they left undone is done. `generate` writes such a store.

mod answers;
mod behaviour;
mod compare;
#[path = "../../../selvedge-postgres/tests/support/database.rs"]
mod database;
mod directory;
mod driver;
mod generate;
mod notes;
mod reading;
mod server;
