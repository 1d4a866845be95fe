//! Submissions: what is read back is what was submitted, and ids and keys stand for one execution.
#![allow(missing_docs)]

use super::Bench;
use selvedge_core::submission::When;
use selvedge_core::{Draft, State};

pub async fn a_submission_is_read_back_with_every_field_and_its_payload_byte_for_byte(bench: &Bench) {
    let draft = Draft {
        delay: Some(When::AfterMs(1_000_000)),
        ..Draft::new("kind")
    };
    let row = bench.submit(draft).await;
    assert!(matches!(row.state, State::Delayed { .. }));
    assert_eq!(bench.row(row.id).await, row);
}
