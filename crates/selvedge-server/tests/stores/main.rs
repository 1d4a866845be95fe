//! Compatibility with stores of earlier builds. The checked-in stores (fixtures) are opened, read over HTTP and
//! compared field by field, and the work they left pending is completed. `generate` writes such a store.

mod behaviour;
mod compare;
mod directory;
mod driver;
mod generate;
mod namespaces;
mod notes;
mod reading;
mod server;
mod snapshot;
