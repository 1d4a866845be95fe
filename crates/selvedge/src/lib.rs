//! A durable execution engine: embed it, or talk to it.
