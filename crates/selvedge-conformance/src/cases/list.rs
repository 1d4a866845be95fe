//! The list of cases, and the macros that turn it into tests. The compiler warns of a case that is not listed, as dead
//! code.

/// Passes the list of cases, by file, to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($($then:ident)::+; $($rest:tt)*) => {
        $($then)::+! { $($rest)*
            execution::submission: {
                a_submission_is_read_back_with_every_field_and_its_payload_byte_for_byte
                an_id_of_another_namespace_is_taken_whatever_it_names
                input_and_result_of_the_largest_size_are_kept_byte_for_byte
                a_null_result_is_not_a_missing_result
                a_replay_clears_the_result
                an_invalid_item_is_refused_and_the_others_are_accepted
                concurrent_submissions_of_one_id_create_one_execution
                concurrent_submissions_of_one_idempotency_key_create_one_execution
                concurrent_submissions_of_one_unique_key_create_one_execution_until_it_has_ended
                keys_of_different_namespaces_are_independent
            }
            execution::rows: {
                a_row_is_read_back_equal_in_every_state_that_the_rules_reach
                an_execution_that_expires_at_once_is_read_back_equal
                a_row_with_every_rare_field_is_read_back_equal
                unknown_ids_are_omitted
                concurrent_changes_of_one_row_are_all_kept
                transactions_that_touch_the_same_rows_in_any_order_all_commit
            }
            execution::api_keys: {
                a_key_is_found_by_its_digest_with_every_field
                a_key_that_has_expired_already_is_refused
                keys_are_listed_in_pages_newest_first
                a_revoked_key_keeps_its_first_time_and_has_one_event
                the_use_of_a_key_is_recorded_and_changes_nothing_else
                a_repeated_creation_creates_no_second_key
                a_deleted_namespace_is_removed_from_older_keys_and_no_newer_ones
            }
            execution::calls: {
                every_call_is_reported_once_under_its_name
                an_interceptor_sees_every_decision_and_fails_any_call
            }
            execution::bulk_jobs: {
                a_job_is_read_back_with_every_field
                a_job_meets_every_execution_once_and_ends
                a_chunk_that_was_done_is_not_done_again
                of_many_servers_with_one_chunk_one_does_it
                executions_that_refuse_the_action_are_counted_and_named
                a_stopped_job_does_nothing_more
                a_job_is_due_until_it_is_taken_and_again_when_its_server_is_silent
                a_repeated_start_names_the_first_job
                jobs_are_listed_by_namespace_newest_first
                an_emptied_namespace_has_no_executions_flows_or_other_rows
                a_deletion_cannot_be_stopped_and_one_that_was_stopped_continues
            }
            execution::debounce: {
                a_further_submission_replaces_the_input_and_restarts_the_delay
                the_start_is_delayed_by_at_most_the_maximum
                a_submission_after_the_quiet_creates_another_execution
                an_execution_that_was_tried_does_not_wait_for_quiet_again
                a_submission_of_another_kind_or_lane_is_refused
                submissions_of_one_batch_are_debounced_in_order
                concurrent_submissions_create_one_execution
                a_repeat_with_an_idempotency_key_changes_nothing
            }
            execution::webhooks: {
                a_webhook_is_read_back_with_every_field_and_changes_raise_its_version
                webhooks_are_listed_in_pages_by_name
                two_creations_at_once_create_one_webhook
                a_webhook_has_one_owner_until_its_lease_ends
                a_late_owner_records_nothing
                deliveries_are_read_back_by_state_newest_first
                a_delivery_that_fails_for_too_long_is_dead_until_it_is_replayed
                old_successes_are_deleted_and_nothing_else
                a_deleted_webhook_leaves_no_delivery_and_a_new_one_has_another_id
                missed_events_are_counted_and_published
                a_rotation_keeps_the_old_key_for_its_grace_period
            }
            execution::schedules: {
                a_schedule_is_read_back_with_every_field
                schedules_are_listed_by_name_and_namespace
                due_schedules_are_found_by_time_page_and_scope
                a_time_is_fired_once_by_any_number_of_servers
                a_fired_execution_carries_its_schedule_and_its_input_byte_for_byte
                a_fired_flow_and_its_members_carry_their_schedule
                a_server_that_slept_for_a_day_catches_up_as_the_policy_says
                many_missed_times_are_caught_up_with_in_bounded_transactions
                a_time_is_skipped_while_a_run_lives
                times_wait_for_the_end_of_the_run_before_in_order
                at_most_a_hundred_times_wait_and_these_are_the_oldest
                a_refused_submission_is_recorded_and_the_schedule_goes_on
                a_changed_schedule_is_not_fired_with_its_former_submission
                a_schedule_is_replaced_only_at_its_expected_version
                a_recreated_schedule_fires_no_time_again
                a_run_at_once_is_made_once_per_key
                a_resumed_schedule_does_not_catch_up_with_the_pause
            }
            execution::guards: {
                a_current_cached_row_needs_no_second_try
                a_decision_on_a_stale_cached_row_is_begun_again_and_sees_the_new_row
                a_decision_on_a_cached_row_with_a_revoked_lease_is_refused
                a_submission_whose_reply_was_lost_finds_its_executions
                inserting_an_existing_id_saves_nothing_and_is_begun_again
                adding_an_existing_key_saves_nothing_and_is_begun_again
                updating_an_outdated_version_saves_nothing_and_is_begun_again
                deleting_an_outdated_version_saves_nothing_and_is_begun_again
                a_decision_whose_guards_never_hold_fails_as_contended
                a_decision_without_changes_writes_nothing
                a_panicking_decision_fails_only_its_own_call
            }
            execution::claims: {
                claims_are_ordered_by_priority_and_then_by_age_across_classes
                a_level_of_priority_is_worth_an_hour_of_waiting
                executions_of_one_submission_are_claimed_in_their_order
                a_changed_priority_or_a_revoked_lease_changes_the_claim_order
                a_claim_takes_at_most_its_maximum_and_carries_the_inputs
                a_claim_takes_only_waiting_executions_of_its_classes
                a_lane_with_many_kinds_is_claimed_in_order_and_by_kind
                a_claim_by_kind_beside_one_of_any_kind_gets_its_executions
                candidates_are_the_first_of_their_classes_except_those_to_skip
                candidates_behind_those_that_name_a_refusing_gate_are_found_too
                a_submission_and_a_claim_share_one_transaction
                concurrent_claims_take_every_execution_exactly_once
            }
            execution::payloads: {
                a_large_input_comes_as_its_size_unless_it_is_asked_for_whole
                a_claim_of_large_inputs_hands_out_as_many_as_fit_and_each_whole
                a_join_carries_results_up_to_a_bound_and_names_the_others
                children_share_the_bound_of_a_claim_with_upstreams
                large_steps_are_carried_whole_and_count_against_the_bound
            }
            execution::keys: {
                a_key_is_read_back_with_every_field
                a_key_is_removed_only_if_it_belongs_to_that_execution
                keys_are_removed_before_keys_are_added
                only_expired_keys_are_deleted_up_to_the_limit
                a_repeated_keyed_call_gets_the_first_reply
                a_keyed_operator_action_is_applied_once_also_by_concurrent_calls
                a_step_of_a_keyed_call_is_refused_again_when_it_is_repeated
            }
            execution::merge: {
                sessions_are_merged_as_defined
                amounts_are_added_to_the_ledger_as_defined
                flows_are_counted_and_reported_as_emptied_as_defined
            }
            execution::sessions: {
                a_session_is_read_back_with_every_field
                times_of_a_session_never_go_back_and_a_requested_drain_stays_requested
                a_session_that_is_deleted_and_written_in_one_transaction_is_not_merged
                a_write_of_an_earlier_life_of_a_session_is_ignored_and_one_of_a_later_life_replaces_it
                a_waiting_claim_gets_nothing_after_its_worker_has_departed_and_a_new_claim_registers_it
                a_new_incarnation_supersedes_its_predecessor_in_all_sessions_of_the_instance
                a_heartbeat_does_not_count_a_lease_as_lost_that_its_worker_ended
                a_heartbeat_that_waits_renews_leases_that_were_claimed_meanwhile
                an_instance_is_loaded_with_its_sessions_and_their_leases
                a_heartbeat_renews_and_reports_cancellations_and_lost_leases
            }
            execution::liveness: {
                a_lease_expires_when_its_first_term_and_its_session_are_both_over
                an_unseen_session_without_leases_is_found
            }
            execution::due: {
                due_executions_are_found_by_kind_earliest_first_and_in_pages
                the_overview_shows_the_next_due_time_of_each_kind
                the_clock_of_the_store_does_not_go_back
                an_execution_that_is_no_longer_due_is_not_found
                a_due_action_found_by_several_reconcilers_is_applied_once
            }
            execution::scopes: {
                a_scan_finds_the_rows_of_its_scope_behind_those_of_others
            }
            execution::lists: {
                a_list_returns_the_rows_that_match_every_part_of_its_filter_newest_first
                a_list_returns_the_same_rows_and_payloads_as_fetch
                paging_has_no_gap_and_no_repeat_while_rows_are_added
                a_page_scans_a_bounded_part_of_the_list_and_says_where_to_continue
                a_page_reads_a_bounded_number_of_rows_and_says_where_to_continue
                the_executions_ahead_of_a_waiting_one_are_counted_in_its_class_up_to_a_bound
            }
            execution::tags: {
                the_tag_index_follows_the_tags
            }
            execution::history: {
                a_history_that_outgrows_its_row_is_kept_in_ordered_pages
                retention_deletes_the_row_with_its_tags_keys_and_pages_and_nothing_else
                a_deletion_leaves_the_key_of_a_newer_execution
                an_execution_changed_and_deleted_in_one_transaction_leaves_nothing
            }
            execution::events: {
                every_transaction_that_changes_an_execution_writes_one_entry
                events_of_one_transaction_are_logged_in_their_order
                a_renewal_is_logged_and_a_new_session_is_not
                the_log_is_read_in_pages
                a_page_of_the_log_is_bounded_in_bytes
                the_head_of_an_execution_is_read_alone
                a_reader_that_follows_concurrent_writers_sees_every_entry_once_and_in_order
            }
            execution::log_window: {
                no_entry_is_dropped_before_its_time
                dropped_entries_are_not_read_and_a_cursor_before_them_has_expired
                numbers_continue_after_all_entries_were_dropped
                concurrent_calls_drop_a_period_of_the_log_once
                a_reader_that_follows_the_log_while_its_window_is_kept_misses_nothing
            }
            execution::streams: {
                frames_are_read_back_byte_for_byte_from_any_number
                the_summary_is_one_document_with_a_version_and_no_frame
                a_summary_is_kept_when_a_stream_is_written_without_it
                the_streams_of_attempts_and_executions_are_separate
                frames_appended_in_one_transaction_or_concurrently_are_all_kept
                best_effort_frames_are_bounded_in_number_and_durable_ones_are_not
                best_effort_frames_that_are_too_old_are_omitted_and_deleted
                only_best_effort_frames_with_smaller_numbers_are_dropped
                a_stream_is_deleted_with_its_execution_and_with_no_other
                a_decision_that_is_begun_again_appends_once
            }
            execution::stats: {
                rollups_are_replaced_by_their_key_and_listed_in_its_order
                old_rollups_are_deleted_in_bounded_pages
                live_executions_are_counted_by_class_and_state_with_the_oldest
            }
            execution::lanes: {
                lanes_are_counted_by_their_waiting_and_active_executions
            }
            execution::interning: {
                concurrent_interning_gives_a_namespace_one_id
                the_settings_of_a_namespace_are_its_own_and_have_defaults
                a_deletion_that_has_begun_is_not_undone
                a_name_that_was_deleted_gets_a_new_id_and_the_old_rows_stay_apart
                classes_that_differ_in_any_part_have_different_ids
                a_reader_that_sees_a_class_has_seen_all_earlier_ones
                the_first_classes_of_a_lane_have_no_pool_and_later_ones_share_one
                unused_classes_are_removed_and_their_ids_are_not_used_again
            }
            flows::submission: {
                a_flow_is_submitted_whole_and_read_back_with_every_edge_at_both_ends
                submitting_a_flow_again_returns_the_first
                concurrent_submissions_of_one_flow_create_one_flow
                a_flow_submission_whose_reply_was_lost_finds_its_flow
                a_flow_with_a_node_id_in_use_is_refused_and_leaves_nothing
                a_claim_carries_results_outcomes_and_errors_of_upstreams_by_name
                a_node_that_is_claimed_again_carries_its_upstreams_again
                the_delay_of_a_node_starts_when_its_join_is_satisfied
                an_unneeded_hedge_never_starts
                a_flow_completes_when_every_member_has_completed
                a_failure_that_nothing_handles_fails_the_flow
                a_flow_completes_if_a_handler_or_a_join_handles_every_failure
                a_failure_or_skipped_edge_holds_after_every_outcome_but_completion
                the_tags_of_a_flow_reach_its_members_unless_they_have_their_own
                a_failure_after_a_replay_is_not_handled_by_an_earlier_success
                the_end_of_a_flow_does_not_depend_on_draining_its_outbox_first
                a_flow_settled_in_the_transaction_of_its_last_failure_is_failed
                a_flow_with_a_requested_cancellation_ends_cancelled_however_its_members_ended
                the_transaction_that_ends_the_last_member_reports_it_and_a_flow_is_settled_once
                the_deadline_of_a_flow_expires_its_live_members
            }
            flows::joins: {
                an_edge_holds_when_its_upstreams_outcome_matches_its_condition
                a_skip_propagates_like_a_completion
                all_of_waits_for_every_edge_and_is_impossible_after_the_first_dead_one
                any_of_runs_after_the_first_edge_that_holds_and_cancels_the_rest
                a_quorum_runs_when_enough_edges_hold_and_is_skipped_when_too_few_can
                let_run_does_not_cancel_the_rest
                a_satisfied_join_cancels_siblings_in_every_state
                a_sibling_that_another_undecided_join_needs_is_not_cancelled
                a_sibling_is_cancelled_once_the_other_join_has_decided_too
                a_join_that_comes_to_need_a_sibling_before_its_cancellation_keeps_it
                siblings_that_ended_meanwhile_are_not_changed
                a_join_decides_once_however_many_upstreams_end_later
                upstreams_that_end_concurrently_are_all_counted
            }
            flows::dispatch: {
                a_completion_stays_in_the_outbox_until_it_is_propagated
                a_completion_dispatched_twice_counts_once_and_reports_it
                a_completion_dispatched_twice_in_one_transaction_counts_once
                a_completion_dispatched_by_concurrent_servers_counts_once
                a_repeated_report_enqueues_nothing
                a_late_upstream_leaves_a_delayed_downstream_delayed
                a_late_upstream_leaves_an_active_downstream_active
                a_late_upstream_does_not_shorten_a_backoff
                an_upstream_that_ended_before_its_edge_was_added_counts_at_once
                an_edge_that_is_added_while_its_upstream_is_still_in_the_outbox_counts_once
                every_way_to_end_reaches_the_downstream
                every_cancellation_of_a_node_is_propagated
                loaded_downstreams_are_updated_in_the_same_transaction
                a_chain_that_is_interrupted_anywhere_drains_fully
                a_wide_completion_is_dispatched_in_chunks
                a_node_that_changes_during_its_dispatch_is_propagated_from_the_start
                a_dispatch_that_only_closes_keeps_an_unfinished_row
                a_deletion_leaves_no_outbox_row_that_cannot_be_dispatched
                an_expired_lease_that_is_retried_is_not_propagated
            }
            flows::cancel: {
                cancelling_all_ends_every_live_member_and_leaves_ended_ones_unchanged
                cancelling_pending_ends_only_members_that_have_not_started
                a_cancellation_interrupted_in_the_middle_is_completed
                repeating_a_cancellation_changes_nothing_and_a_wider_one_widens_it
                an_ended_or_unknown_flow_is_not_cancelled
                a_flow_that_is_being_cancelled_does_not_grow
                a_member_is_replayed_only_after_the_cancellation_of_its_flow_is_done
                cancelling_all_ends_members_that_its_own_cancellations_made_waiting
                a_cancellation_drained_by_concurrent_servers_ends_each_member_once
            }
            flows::growth: {
                a_running_flow_grows_by_nodes_and_edges
                concurrent_growth_is_all_kept
                a_growth_whose_reply_was_lost_is_found_again
                a_cycle_is_refused_with_its_nodes_named
                a_cycle_that_growth_would_close_is_refused
                two_concurrent_growths_cannot_close_a_cycle_together
                an_unknown_node_is_refused_by_its_name
                an_existing_edge_or_name_is_refused
                an_edge_into_a_node_that_no_longer_waits_for_dependencies_is_refused
                an_edge_from_a_node_in_any_state_is_accepted
                an_ended_flow_does_not_grow
                a_graph_beyond_the_limits_is_refused
                a_policy_that_can_never_or_always_be_met_is_refused
                an_invalid_node_is_refused_with_its_path
            }
            flows::spawning: {
                an_execution_without_a_flow_becomes_the_root_of_its_own_flow
                a_repeated_spawn_is_a_no_op
                a_spawn_repeated_by_the_next_attempt_adds_only_new_nodes
                a_spawn_with_other_content_is_a_conflict_and_changes_nothing
                spawned_nodes_cannot_close_a_cycle
                other_nodes_cannot_be_made_to_wait_for_spawned_ones
                children_are_cancelled_when_their_parent_ends_without_completing
                children_of_children_are_cancelled_with_them
                a_retried_parent_keeps_its_children
                a_flow_that_has_the_id_of_a_lone_execution_does_not_become_its_flow
                an_execution_without_a_lease_spawns_nothing
            }
            flows::replays: {
                nodes_skipped_because_of_a_replayed_node_reopen_level_by_level
                a_node_that_reopens_after_its_flow_ended_makes_the_flow_running_again
                a_node_that_ran_keeps_its_decision_when_its_upstream_is_replayed
                an_undecided_join_waits_for_the_new_generation
                a_node_that_stays_impossible_for_another_reason_stays_skipped
                a_late_update_from_an_older_generation_changes_nothing
                a_replay_that_ends_before_its_dispatch_is_propagated_with_its_outcome
                a_skipped_node_cannot_be_replayed
                a_node_cancelled_while_waiting_for_dependencies_waits_again_after_a_replay
                a_replayed_node_carries_its_upstreams_and_loses_its_old_result
                a_replay_in_a_wide_flow_reopens_exactly_what_the_dry_run_lists
                a_node_that_reopens_after_the_cancellation_of_its_flow_is_cancelled
            }
            flows::rows: {
                a_flow_with_every_rare_field_is_read_back_equal
                wiring_and_join_of_a_node_are_read_back_equal_everywhere
                wiring_and_flow_are_written_only_when_they_change
                inserting_an_existing_flow_id_saves_nothing_and_is_begun_again
                updating_or_deleting_an_outdated_flow_version_saves_nothing
                adding_an_existing_node_name_saves_nothing_and_is_begun_again
                an_update_of_a_flow_keeps_its_counts_and_a_count_keeps_the_rest
                a_count_reports_a_flow_that_is_left_without_live_members
                an_addition_to_the_counts_leaves_the_state_of_a_flow
                concurrent_counts_are_all_added
                nodes_are_found_by_name_until_they_are_removed
                members_are_read_in_pages_in_the_order_of_their_submission
                results_are_loaded_if_requested
            }
            flows::outbox: {
                an_outbox_row_is_read_back_with_every_field
                an_outbox_row_that_is_written_again_is_replaced
                the_outbox_is_scanned_by_kind_oldest_first_and_in_pages
                only_outbox_rows_that_are_old_enough_are_stale
                the_overview_shows_the_oldest_outbox_rows_and_due_flows
            }
            flows::lists: {
                a_list_of_flows_returns_those_that_match_every_part_of_its_filter_newest_first
                a_list_of_flows_follows_their_states
                due_flows_are_found_by_kind_earliest_first_and_in_pages
            }
            flows::retention: {
                a_member_is_not_deleted_before_its_flow
                a_flow_is_kept_for_the_longest_retention_of_its_nodes_or_its_own
                a_flow_is_deleted_with_all_of_its_rows_and_nothing_else
                a_large_flow_is_deleted_in_chunks_and_cannot_be_used_meanwhile
                a_flow_that_reopens_before_its_deletion_is_kept
                an_execution_that_has_spawned_is_deleted_with_its_flow
                signals_steps_and_waitpoints_of_members_are_deleted_with_their_flow
            }
            suspension::suspend: {
                a_suspended_row_with_every_condition_is_read_back_equal_everywhere
                a_row_that_is_suspended_and_resumed_is_read_back_equal_everywhere
                a_flow_counts_its_suspended_members
                an_awaited_signal_resumes_and_the_claim_carries_it
                the_lease_of_a_suspended_execution_is_over
                a_repeated_suspension_gets_the_same_reply
                a_claim_carries_its_signals_again_until_the_next_suspension
                operators_may_prioritise_tag_and_cancel_a_suspended_execution
                the_deadline_of_a_suspended_execution_passes
                suspending_an_execution_with_a_requested_cancellation_ends_it
                a_signal_and_the_claim_of_the_resumed_execution_share_one_transaction
                a_repeated_keyed_claim_carries_the_same_signals
                a_signal_concurrent_with_the_suspension_is_not_lost
            }
            suspension::conditions: {
                one_part_of_any_is_enough_and_only_its_signals_are_taken
                all_parts_are_awaited_in_any_order
                a_count_distinguishes_signals_by_name
                a_count_distinguishes_signals_by_source
                a_count_distinguishes_signals_by_waitpoint
                an_awaited_time_resumes
                an_operator_satisfies_its_condition_or_resumes_any_suspension
                a_condition_that_holds_already_resumes_at_once
                early_signals_count_and_the_rest_stays_for_later
                one_wait_of_several_is_enough_and_a_signal_counts_for_the_first_that_accepts_it
                an_invalid_suspension_is_refused_and_changes_nothing
            }
            suspension::timeouts: {
                a_timeout_ends_the_execution_with_the_requested_outcome
                a_timeout_may_resume_and_the_claim_says_so
                an_escalated_wait_stays_and_is_reported_once
                the_timeout_of_one_wait_keeps_the_signals_of_the_others
                a_time_before_the_timeout_is_applied_first
                a_timeout_does_not_change_an_execution_that_was_resumed_before_it
                a_concurrent_signal_and_timeout_have_one_effect
                a_timeout_and_a_signal_in_one_transaction_have_one_effect
            }
            suspension::signals: {
                signals_are_read_back_with_every_field_in_order_and_in_pages
                only_requested_signals_are_loaded
                a_signal_may_be_taken_in_the_transaction_that_adds_it
                a_change_whose_guard_fails_saves_no_signal_step_or_waitpoint
                concurrent_signals_are_all_kept_and_the_last_required_one_resumes
                a_repeated_keyed_signal_gets_the_first_reply
                concurrent_signals_with_one_key_are_one_signal
                a_signal_is_accepted_only_by_a_live_execution_of_the_callers_namespace
                a_signal_beyond_the_limits_is_refused
                signals_beyond_the_limit_of_an_execution_are_refused
                signals_steps_and_waitpoints_are_deleted_with_their_execution_only
                an_execution_deleted_and_submitted_again_in_one_transaction_keeps_no_signals_steps_or_waitpoints
            }
            suspension::waitpoints: {
                waitpoints_are_read_back_with_every_field_by_id_and_by_execution
                waitpoints_are_listed_by_state_and_source_newest_first
                a_waitpoint_is_created_before_the_suspension_or_with_it
                a_name_refers_to_the_same_waitpoint_until_its_signal_is_taken
                a_waitpoint_that_accepts_no_delivery_is_created_anew
                an_expired_waitpoint_is_marked_and_logged
                waitpoints_expire_in_every_live_state
                a_waitpoint_is_revoked_once_and_only_while_open
                the_waitpoints_of_an_execution_are_closed_with_its_end_whatever_ended_it
                the_other_waitpoints_of_a_vote_are_closed_with_it_and_those_of_later_waits_stay_open
                a_wait_that_a_replay_repeats_opens_its_waitpoints_again
                waitpoints_beyond_the_limit_of_an_execution_are_refused
            }
            suspension::tokens: {
                token_keys_are_read_back_with_every_field
                the_first_secret_is_kept_for_ever
                a_token_is_accepted_once_and_a_repeat_gets_the_first_reply
                a_repeat_gets_the_first_reply_even_if_the_signal_had_another_name
                a_token_used_concurrently_is_accepted_once
                a_callers_key_and_a_token_deduplicate_the_same_delivery
                a_token_is_accepted_only_at_its_own_waitpoint
                a_token_sends_only_the_signals_of_its_waitpoint
                a_token_of_an_earlier_build_sends_any_signal_but_that_of_another_waitpoint
                a_new_token_ends_the_old_one
                an_operator_answers_in_place_of_the_token_holder
                a_token_is_refused_from_the_moment_of_its_expiry
                a_revoked_token_is_refused
                a_token_of_an_ended_execution_is_refused
                tokens_of_an_old_key_are_accepted_during_the_grace_period
                tokens_of_a_retired_key_are_refused
                a_server_with_another_root_secret_signs_with_a_key_of_its_own
            }
            suspension::steps: {
                steps_are_read_back_with_every_field_in_order_and_in_pages
                a_step_is_recorded_once_and_claims_carry_it_in_order
                only_the_current_lease_records_a_step
                steps_survive_every_end_of_an_attempt
                a_wait_with_a_step_is_open_until_its_end_is_recorded
                the_step_of_a_wait_that_did_not_end_stays_open
                every_way_to_resume_records_the_step_of_the_wait
                a_replay_restarts_the_waits_of_open_steps
                steps_beyond_the_limit_of_an_execution_are_refused
            }
            suspension::children: {
                a_parent_resumes_when_its_last_child_has_ended_and_sees_them_all
                children_that_ended_before_the_suspension_resume_at_once
                the_end_of_a_child_that_nobody_awaits_enqueues_nothing
                a_child_that_reopens_is_awaited_again
                a_parent_looks_at_its_children_a_few_times_in_whatever_order_they_end
                the_end_of_a_child_is_not_missed_in_any_order_of_dispatches
                one_dispatch_covers_all_children_that_have_ended
                every_outcome_of_a_child_counts_as_its_end
                a_retried_child_has_not_ended
                detached_children_are_not_awaited
                children_may_be_one_part_of_a_condition
                the_step_of_a_wait_for_children_is_recorded_by_the_dispatch
                a_parent_that_times_out_cancels_its_children
                a_suspended_execution_is_cancelled_with_its_parent_or_its_flow
                children_that_end_while_their_parent_suspends_are_not_missed
                a_parent_that_is_no_longer_suspended_is_not_changed
            }
            gates::lanes: {
                a_paused_lane_admits_nothing_and_changes_no_row
                active_executions_of_a_paused_lane_continue
                a_draining_lane_admits_its_waiting_executions
                a_lane_never_has_more_active_than_its_limit
                concurrent_claims_do_not_exceed_the_limit_of_a_lane
                a_limit_counts_the_executions_that_are_already_active
                a_lane_admits_nothing_until_all_active_executions_are_counted
                a_lane_whose_limit_is_lifted_while_it_counts_admits_at_once
                a_lane_never_exceeds_its_rate_in_any_window
                the_rate_of_a_lane_is_fully_used_as_time_passes
                a_changed_limit_of_a_lane_applies_at_once
                lanes_without_limits_count_nothing
                lanes_share_a_claim_by_their_weights
                the_kinds_of_a_lane_share_its_limit_and_namespaces_do_not
                a_slot_given_back_in_the_transaction_of_a_claim_is_taken_once
            }
            gates::promises: {
                held_executions_start_before_later_ones_although_their_key_is_always_full
                held_executions_start_before_later_ones_although_their_quota_is_always_full
                held_executions_start_before_later_ones_although_their_budget_is_always_full
                a_promise_ends_by_itself_if_the_released_execution_does_not_start
                an_execution_that_is_moved_before_a_pending_scan_is_released
                an_execution_that_a_scan_passed_is_released_when_the_promise_ends_that_kept_it
                a_promise_is_dropped_when_the_released_execution_ends_or_is_delayed
                a_promise_is_dropped_when_another_gate_refuses_the_released_execution
                a_promised_start_counts_in_the_window_of_a_rate
                a_promise_of_a_budget_reserves_the_amounts
                a_gate_without_limits_promises_nothing
            }
            gates::quotas: {
                an_execution_refused_by_a_key_is_held_and_does_not_block_others
                a_key_never_has_more_active_than_its_limit
                held_executions_are_released_by_priority_and_then_by_age
                a_quota_limits_all_executions_that_draw_on_it
                a_quota_that_was_removed_refuses_nothing_and_counts
                a_quota_never_exceeds_its_rate_in_any_window
                a_gate_whose_rate_refuses_is_checked_when_its_window_has_room
                a_rate_or_a_limit_of_zero_is_opened_only_by_an_operator
                an_execution_refused_by_the_second_gate_takes_nothing_of_the_first
                a_gate_releases_the_next_if_the_released_one_is_cancelled
                a_raised_lowered_or_removed_limit_applies_at_once
                held_executions_are_released_in_bounded_chunks
                every_end_of_a_lease_gives_back_its_slots
                every_end_of_a_lease_by_time_gives_back_its_slots
                the_cancellation_of_a_flow_gives_back_the_slots_of_its_members
                held_executions_are_cancelled_and_expire_like_waiting_ones
                a_held_execution_may_be_rescheduled_and_is_checked_again
                a_replay_draws_anew
                an_end_and_a_claim_of_the_released_execution_share_one_transaction
                concurrency_keys_of_different_namespaces_are_independent
                each_execution_brings_its_own_limit_of_the_key
                slots_given_back_without_loading_the_gate_are_found
                a_quota_without_limits_holds_nothing
            }
            gates::breaches: {
                an_attempt_that_a_budget_suspended_may_be_ended_until_the_next_claim
                an_attempt_that_a_budget_failed_stays_failed
                an_exhausted_budget_may_let_active_executions_continue
                an_exhausted_budget_may_fail_active_executions
                an_exhausted_budget_may_suspend_active_executions_until_there_is_room
                an_execution_suspended_by_a_budget_may_be_resumed_by_an_operator
                executions_to_be_stopped_are_not_forgotten_when_another_ends
                a_breach_that_is_over_stops_nothing
            }
            gates::budgets: {
                a_claim_is_admitted_while_usage_and_reservations_leave_room
                reservations_count_like_usage
                concurrent_claims_do_not_reserve_more_than_the_limit
                amounts_are_exact_and_dimensions_are_independent
                usage_is_counted_once_per_deduplication_key
                usage_is_accepted_from_any_attempt_that_once_held_a_lease
                a_budget_that_was_removed_is_unknown_and_refuses_nothing
                a_submission_that_names_an_unknown_budget_or_quota_is_refused
                usage_of_a_deleted_execution_is_counted_without_it
                usage_says_which_hard_limits_are_reached
                a_reached_limit_is_logged_once
                a_budget_per_flow_counts_each_flow_separately
                the_members_of_a_flow_share_its_part_of_a_budget
                a_budget_per_lane_counts_each_lane_separately
                the_end_of_a_period_resets_the_usage_and_releases
                a_manual_reset_begins_a_period_and_releases
                a_raised_or_removed_limit_releases
                a_removed_unused_budget_leaves_nothing
                the_usage_of_a_deleted_execution_is_kept
                the_part_of_a_budget_for_a_flow_is_deleted_with_the_flow
                several_budgets_are_all_checked_and_the_first_that_refuses_holds
            }
            gates::fairness: {
                one_execution_per_fairness_key_may_be_claimed_and_the_others_are_held
                fairness_keys_take_turns_however_many_executions_one_of_them_has
                executions_without_a_fairness_key_are_in_no_line
                priority_orders_executions_within_a_key_and_not_across_keys
                the_head_of_a_line_keeps_its_turn_when_its_priority_changes
                a_line_advances_however_its_head_leaves
                an_execution_submitted_as_the_head_leaves_goes_to_the_end_of_the_line
                an_execution_that_leaves_the_middle_of_a_line_does_not_change_the_head
                a_claim_of_many_never_leaves_a_line_without_a_head
                keys_in_different_classes_do_not_share_a_line
                an_execution_takes_its_turn_however_it_became_waiting
                a_replay_takes_its_turn
                an_execution_refused_by_a_gate_leaves_its_line_to_the_next
                concurrent_claims_and_submissions_leave_no_execution_stuck_in_a_line
            }
            gates::changes: {
                an_execution_that_needs_more_than_is_left_does_not_block_those_behind_it
                an_execution_with_a_lower_limit_does_not_block_one_with_a_higher_limit
                executions_held_by_a_part_are_released_when_parts_are_no_longer_counted
                removing_a_budget_releases_all_of_its_held_executions
                a_period_configured_later_applies_to_parts_too
                limits_lowered_below_the_usage_stop_active_executions
                an_execution_that_spends_on_under_an_exhausted_budget_is_stopped
                an_execution_with_a_requested_cancellation_is_cancelled_when_its_budget_is_exhausted
                usage_of_budgets_with_similar_names_is_counted_separately
                an_execution_suspended_by_a_budget_resumes_before_held_ones_that_need_more
                held_executions_use_a_rate_fully_although_nothing_ends
            }
            gates::rows: {
                a_gate_is_read_back_equal_in_every_field
                a_changed_gate_is_read_back_equal
                requested_gates_are_distinguished_from_existing_ones
                configured_gates_are_listed_by_name_in_pages
                the_parts_of_a_gate_are_listed_by_id
                due_gates_are_found_earliest_first_and_in_pages
                writing_an_outdated_gate_saves_nothing_and_is_begun_again
                a_gate_created_concurrently_is_created_once
                slots_are_given_back_to_a_gate_that_was_not_loaded_up_to_the_taken_ones
                spent_amounts_add_up_exactly_and_outlive_their_execution
                executions_that_wait_for_a_gate_are_read_back_equal
                held_executions_are_found_in_claim_order
                a_held_execution_that_another_transaction_has_locked_is_skipped
                a_flow_counts_held_members_and_stays_running
                a_deduplication_key_of_usage_is_kept_until_it_expires
                a_held_execution_stays_held_when_rules_change_it
            }
            execution::life: {
                a_store_answers_and_can_be_closed_twice
                a_call_dropped_at_any_moment_saves_all_or_nothing
            }
        }
    };
}

/// Re-exports the cases by name.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_reexport {
    ($($folder:ident::$file:ident: { $($case:ident)* })*) => {
        $(pub use self::$folder::$file::{$($case),*};)*
    };
}

/// Creates a test of every case. Takes an async function that returns an empty store.
#[macro_export]
macro_rules! conformance_suite {
    ($make:expr) => {
        $crate::conformance_cases!($crate::conformance_tests; $make;);
    };
}

/// Creates a test of every listed case.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr; $($folder:ident::$file:ident: { $($case:ident)* })*) => {
        $($(
            #[test]
            fn $case() {
                $crate::run_case($make, async |harness| $crate::cases::$case(harness).await);
            }
        )*)*
    };
}
