//! The HTTP API of Selvedge.
