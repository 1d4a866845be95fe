//! A server of a test: an engine on a store of its own, and its default namespace.

#![allow(unused_imports)]

pub use super::test_server::{
    TestServer as Server, claim_of, claim_wait, complete_op, fail_op, fence, ids, operator, passive_options,
};
