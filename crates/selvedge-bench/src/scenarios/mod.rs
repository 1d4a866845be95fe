//! The scenarios, one module each. The documentation of a module says what it measures and with what it compares that.

pub mod backlog;
pub mod beside;
pub mod capability;
pub mod chain;
pub mod fanout;
pub mod feed;
pub mod flows;
pub mod held;
pub mod idle;
pub mod latency;
pub mod limits;
pub mod queue;
pub mod quorum_cancel;
pub mod submit_flow;
pub mod suspend_signal;
pub mod webhooks;
