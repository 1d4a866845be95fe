//! The list of cases, and the macros that make tests of it. A case that does not stand here is dead code, and warned of.

/// Hands the list of cases, by file, to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($($then:ident)::+; $($rest:tt)*) => {
        $($then)::+! { $($rest)*
            submission: {
                a_submission_is_read_back_with_every_field_and_its_payload_byte_for_byte
                input_and_result_of_the_largest_size_are_kept_byte_for_byte
                a_result_of_null_is_not_a_missing_one
                a_replay_clears_the_result
                one_bad_item_refuses_only_itself
                the_same_id_submitted_at_once_is_one_execution
                the_same_idempotency_key_submitted_at_once_is_one_execution
                the_same_unique_key_submitted_at_once_is_one_execution_until_that_has_ended
                a_key_belongs_to_its_namespace_alone
            }
            rows: {
                a_row_is_read_back_equal_in_every_state_that_the_rules_bring_it_to
                what_is_due_at_once_expires_and_is_read_back_equal
                a_row_with_every_rare_field_is_read_back_equal
                unknown_ids_are_left_out
                changes_of_one_row_made_at_once_are_all_kept
                transactions_that_touch_the_same_rows_in_any_order_all_come_through
            }
            guards: {
                a_row_that_is_remembered_rightly_needs_no_second_try
                a_decision_that_remembers_an_older_version_is_begun_again_and_sees_the_new_row
                a_decision_that_remembers_a_lease_which_was_taken_away_is_refused_after_all
                a_submission_whose_answer_was_lost_finds_what_it_made
                an_insert_of_an_id_that_is_taken_saves_nothing_and_is_begun_again
                a_key_that_is_taken_saves_nothing_and_is_begun_again
                an_update_of_a_version_that_is_gone_saves_nothing_and_is_begun_again
                a_deletion_of_a_version_that_is_gone_saves_nothing_and_is_begun_again
                a_decision_whose_guards_never_hold_ends_as_contended
                a_decision_without_changes_writes_nothing
                a_panicking_decision_fails_alone
            }
            claims: {
                claims_go_by_priority_and_then_by_the_time_it_became_ready_across_classes
                what_became_ready_in_one_transaction_keeps_its_order
                a_change_of_priority_or_a_return_moves_it_in_the_order
                a_claim_takes_no_more_than_it_asked_for_and_brings_the_inputs
                a_claim_takes_only_what_is_ready_and_of_its_classes
                candidates_are_the_first_of_their_classes_but_for_those_to_be_passed_over
                a_submission_and_a_claim_share_one_transaction
                claims_made_at_once_share_nothing_and_lose_nothing
            }
            keys: {
                a_key_is_read_back_with_every_field
                a_key_is_removed_only_where_it_stands_for_that_execution
                keys_are_removed_before_others_are_added
                only_keys_that_have_expired_are_deleted_and_no_more_than_the_limit
                a_keyed_call_that_is_repeated_gets_the_first_answer
            }
            sessions: {
                a_session_is_read_back_with_every_field
                times_of_a_session_never_go_back_and_a_drain_stays_asked_for
                a_session_that_is_forgotten_and_written_at_once_is_written_anew
                an_instance_is_shown_with_its_sessions_and_their_leases
                a_heartbeat_renews_and_tells_what_was_asked_and_lost
            }
            liveness: {
                a_lease_lapses_when_its_first_term_and_its_session_both_have
                a_session_without_leases_that_was_not_seen_for_long_is_found
            }
            due: {
                what_is_due_is_found_by_kind_earliest_first_and_page_by_page
                the_overview_shows_the_next_due_time_of_each_kind
                the_time_of_the_store_does_not_go_back
                what_is_no_longer_due_is_no_longer_found
                what_several_reconcilers_find_due_happens_once
            }
            lists: {
                a_list_shows_what_matches_every_part_of_its_filter_newest_first
                a_list_shows_rows_and_payloads_as_fetch_does
                paging_shows_no_gap_and_no_repeat_while_rows_are_added
                those_ahead_of_a_ready_one_are_counted_in_its_class_and_up_to_a_bound
            }
            tags: {
                the_tag_index_follows_the_tags
            }
            history: {
                a_history_that_outgrows_its_row_is_kept_in_pages_in_order
                retention_deletes_the_row_with_its_tags_keys_and_pages_and_nothing_else
                a_deletion_leaves_the_key_that_stands_for_a_newer_execution
                what_changes_and_is_deleted_in_one_transaction_leaves_nothing
            }
            events: {
                every_transaction_that_changes_an_execution_writes_one_entry
                facts_stand_in_the_order_in_which_they_happened
                what_is_not_about_an_execution_is_in_the_log_too_and_a_bare_session_is_not
                the_log_is_read_page_by_page
                a_reader_that_follows_many_writers_sees_every_entry_once_and_in_order
            }
            interning: {
                a_namespace_has_one_id_however_many_ask_for_it_at_once
                classes_that_differ_in_anything_have_different_ids
                whoever_sees_a_class_has_seen_all_before_it
            }
            life: {
                a_store_answers_and_can_be_closed_twice
                a_caller_that_goes_away_at_any_moment_leaves_all_or_nothing
            }
        }
    };
}

/// Makes the cases reachable by name.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_reexport {
    ($($file:ident: { $($case:ident)* })*) => {
        $(pub use super::$file::{$($case),*};)*
    };
}

/// Makes a test of every case. Takes an async function that makes an empty store.
#[macro_export]
macro_rules! conformance_suite {
    ($make:expr) => {
        $crate::conformance_cases!($crate::conformance_tests; $make;);
    };
}

/// Makes a test of every case that is listed.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr; $($file:ident: { $($case:ident)* })*) => {
        $($(
            #[test]
            fn $case() {
                $crate::conformance::run_case($make, async |bench| $crate::conformance::cases::$case(bench).await);
            }
        )*)*
    };
}
