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
                a_level_of_priority_is_worth_an_hour_of_waiting_so_low_is_late_and_not_never
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
            log_window: {
                nothing_leaves_the_log_before_its_time
                what_has_left_the_log_is_gone_and_a_cursor_before_it_can_tell
                numbers_go_on_from_a_log_that_everything_has_left
                several_sides_that_keep_the_log_at_once_drop_it_once
                who_follows_the_log_while_it_is_kept_misses_nothing
            }
            streams: {
                frames_are_read_back_byte_for_byte_in_order_and_from_any_number
                the_summary_is_one_document_with_a_version_and_no_frame
                a_summary_stays_when_a_stream_is_written_without_it
                the_streams_of_attempts_and_executions_are_apart
                frames_appended_in_one_transaction_or_at_once_are_all_kept
                best_effort_frames_are_bounded_in_number_and_durable_ones_are_not
                best_effort_frames_that_are_too_old_are_left_out_and_deleted
                only_best_effort_frames_with_smaller_numbers_are_dropped
                a_stream_goes_with_its_execution_and_with_no_other
                a_decision_that_is_begun_again_appends_once
            }
            interning: {
                a_namespace_has_one_id_however_many_ask_for_it_at_once
                classes_that_differ_in_anything_have_different_ids
                whoever_sees_a_class_has_seen_all_before_it
            }
            flows: {
                a_flow_is_submitted_whole_and_read_back_with_every_edge_at_both_ends
                the_same_flow_submitted_again_is_the_first
                the_same_flow_submitted_at_once_is_one_flow
                a_flow_whose_answer_was_lost_is_found_again
                a_node_whose_id_is_in_use_refuses_the_flow_and_leaves_nothing
                a_claim_carries_results_outcomes_and_errors_of_upstreams_by_name
                a_node_that_is_claimed_again_is_shown_its_upstreams_again
                a_delay_of_a_node_counts_from_when_it_would_otherwise_be_ready
                a_hedge_that_is_not_needed_never_starts
                a_flow_is_completed_when_every_member_has_ended_well
                a_failure_that_nothing_absorbs_fails_the_flow
                a_failure_that_an_edge_or_a_group_absorbs_leaves_the_flow_completed
                a_failure_after_a_replay_is_not_absorbed_by_the_success_that_an_edge_counted_before
                how_a_flow_ended_does_not_depend_on_whether_its_outbox_is_drained_first
                a_flow_that_is_settled_with_its_last_failure_is_not_completed
                a_cancel_that_was_asked_for_makes_the_flow_cancelled_however_its_members_ended
                the_transaction_that_ends_the_last_member_says_so_and_a_flow_is_settled_once
                the_deadline_of_a_flow_expires_whatever_has_not_ended
            }
            joins: {
                an_edge_holds_when_its_upstreams_outcome_matches_its_condition
                a_skip_is_a_completion_that_goes_further
                all_of_waits_for_every_edge_and_is_impossible_with_the_first_dead_one
                any_of_runs_with_the_first_that_holds_and_cancels_the_rest
                a_quorum_runs_when_enough_hold_and_is_skipped_when_too_few_can
                let_run_leaves_the_rest_running
                a_satisfied_group_cancels_siblings_in_every_state
                a_sibling_that_another_undecided_group_needs_is_left_alone
                a_sibling_is_cancelled_once_the_other_group_has_decided_too
                a_group_that_comes_to_need_a_sibling_before_it_is_cancelled_keeps_it
                siblings_that_ended_meanwhile_are_not_touched
                a_decision_is_taken_once_however_many_arrive_after_it
                upstreams_that_end_at_once_are_all_counted
            }
            dispatch: {
                a_completion_stays_in_the_outbox_until_its_edges_were_advanced
                a_completion_that_is_dispatched_twice_counts_once_and_says_so
                a_completion_that_is_dispatched_twice_in_one_transaction_counts_once
                a_completion_that_several_servers_dispatch_at_once_counts_once
                a_repeated_report_leaves_nothing_to_be_done_again
                a_late_upstream_leaves_a_delayed_downstream_delayed
                a_late_upstream_leaves_a_running_downstream_to_its_worker
                a_late_upstream_does_not_bypass_a_back_off
                an_upstream_that_ended_before_its_edge_was_added_counts_at_once
                an_edge_that_is_added_while_its_upstream_is_still_in_the_outbox_counts_once
                every_way_to_end_reaches_the_downstream
                a_cancelled_node_is_a_completion_whoever_cancelled_it
                downstreams_at_hand_are_told_in_the_same_transaction
                a_chain_that_is_interrupted_anywhere_drains_fully
                a_wide_completion_is_dispatched_in_chunks
                what_turns_again_in_the_middle_of_its_dispatch_is_told_from_the_beginning
                a_dispatch_that_only_closes_leaves_what_is_not_done
                a_deletion_leaves_no_work_that_cannot_be_done
                a_lease_that_lapses_and_is_tried_again_is_no_completion
            }
            cancel: {
                a_cancel_of_all_ends_everything_and_leaves_what_has_ended_as_it_was
                a_cancel_of_what_is_pending_ends_what_has_not_started_and_nothing_else
                a_cancel_is_complete_after_an_interruption_in_the_middle
                the_same_cancel_again_changes_nothing_and_a_wider_one_widens_it
                a_flow_that_has_ended_or_is_not_there_is_not_cancelled
                nothing_is_added_to_a_flow_that_is_being_cancelled
                a_member_is_replayed_only_when_the_cancel_of_its_flow_is_done
                a_cancel_of_all_ends_what_its_own_cancellations_made_ready
                a_cancel_that_is_drained_by_several_servers_at_once_ends_each_member_once
            }
            growth: {
                a_running_flow_grows_by_nodes_and_edges
                growth_under_way_from_many_sides_is_all_kept
                a_growth_whose_answer_was_lost_is_found_again
                a_cycle_is_refused_with_its_nodes_named
                a_cycle_that_growth_would_close_is_refused
                two_growths_at_once_cannot_close_a_cycle_together
                an_unknown_node_is_refused_by_its_name
                an_edge_or_a_name_that_is_there_already_is_refused
                an_edge_into_a_node_that_no_longer_waits_is_refused
                an_edge_from_a_node_in_any_state_is_taken
                a_flow_that_has_ended_does_not_grow
                a_graph_beyond_the_limits_is_refused
                a_policy_that_can_never_or_always_be_met_is_refused
                a_bad_node_is_refused_with_its_place
            }
            spawning: {
                an_execution_that_was_alone_becomes_the_root_of_its_own_flow
                a_repeated_spawn_is_a_no_op
                a_spawn_that_is_repeated_by_the_next_attempt_adds_only_what_is_new
                a_spawn_with_other_content_is_a_conflict_and_changes_nothing
                what_is_spawned_cannot_close_a_cycle
                others_cannot_be_made_to_wait_for_what_is_spawned
                children_are_cancelled_when_their_parent_ends_other_than_by_success
                the_children_of_children_go_with_them
                a_parent_that_is_tried_again_keeps_its_children
                a_flow_that_has_the_id_of_a_lone_execution_does_not_become_its_flow
                an_execution_without_a_lease_spawns_nothing
            }
            replays: {
                what_was_skipped_because_of_a_replayed_node_opens_again_hop_by_hop
                what_ran_keeps_its_decision_when_its_upstream_is_replayed
                an_undecided_group_waits_for_the_new_generation
                what_stays_impossible_for_another_reason_stays_skipped
                news_of_an_older_generation_that_comes_late_changes_nothing
                a_replay_that_ends_before_it_was_dispatched_reaches_its_downstreams_as_it_ended
                a_skipped_node_cannot_be_replayed_itself
                a_node_that_was_cancelled_while_it_waited_waits_again_when_it_is_replayed
                a_replayed_node_is_shown_its_upstreams_and_its_old_result_is_gone
                a_replay_in_a_wide_flow_opens_exactly_what_the_dry_run_lists
            }
            flow_rows: {
                a_flow_with_every_rare_field_is_read_back_equal
                wiring_and_join_of_a_node_are_read_back_equal_everywhere
                wiring_and_flow_are_written_only_when_they_changed
                the_id_of_a_flow_that_is_taken_saves_nothing_and_is_begun_again
                an_update_or_deletion_of_a_flow_whose_version_is_gone_saves_nothing
                a_name_of_a_node_that_is_taken_saves_nothing_and_is_begun_again
                an_update_of_a_flow_leaves_its_counts_and_an_addition_its_rest
                an_addition_says_when_it_leaves_a_flow_without_live_members
                an_addition_leaves_the_state_of_a_flow_to_the_rules
                additions_that_are_made_at_once_are_all_counted
                nodes_are_found_by_their_names_until_they_are_removed
                members_are_read_page_by_page_in_the_order_of_their_submission
                results_are_loaded_where_they_are_asked_for
            }
            outbox: {
                a_row_of_the_outbox_is_read_back_with_every_field
                a_row_of_the_outbox_that_is_written_again_is_replaced
                the_outbox_is_scanned_by_kind_oldest_first_and_page_by_page
                only_what_has_waited_long_enough_is_stale
                the_overview_shows_since_when_the_outbox_waits_and_what_is_to_be_done_about_flows
            }
            flow_lists: {
                a_list_of_flows_shows_what_matches_every_part_of_its_filter_newest_first
                a_list_of_flows_follows_their_states
                what_is_to_be_done_about_flows_is_found_by_kind_earliest_first_and_page_by_page
            }
            flow_retention: {
                a_member_does_not_go_before_its_flow
                a_flow_stays_for_the_longest_retention_of_its_nodes_or_its_own
                what_is_deleted_with_a_flow_is_gone_everywhere_and_nothing_else_is
                a_large_flow_is_deleted_in_chunks_and_cannot_be_used_meanwhile
                a_flow_that_is_opened_again_before_it_goes_stays
                an_execution_that_has_spawned_goes_with_its_flow
                what_is_recorded_of_members_goes_with_their_flow
            }
            suspension: {
                a_suspended_row_with_everything_it_waits_for_is_read_back_equal_everywhere
                a_row_that_is_suspended_and_goes_on_is_read_back_equal_everywhere
                a_flow_counts_its_suspended_members
                a_signal_that_is_waited_for_lets_it_go_on_and_the_claim_carries_it
                the_lease_of_a_suspended_one_is_over
                the_same_suspension_reported_again_has_the_same_answer
                a_claim_carries_its_signals_again_until_the_next_suspension
                operators_do_to_a_suspended_one_what_makes_sense
                the_deadline_of_a_suspended_one_passes
                a_suspension_of_one_that_was_asked_to_cancel_ends_it
                a_signal_and_the_claim_that_it_makes_possible_share_one_transaction
                a_keyed_claim_that_is_repeated_carries_the_same_again
                a_signal_that_comes_while_it_is_being_suspended_is_not_lost
            }
            conditions: {
                one_part_of_any_is_enough_and_only_what_it_took_is_taken
                all_parts_are_waited_for_in_any_order
                a_count_tells_signals_apart_by_their_names
                a_count_tells_signals_apart_by_who_sent_them
                a_count_tells_signals_apart_by_the_waitpoints_through_which_they_came
                a_time_that_is_waited_for_comes
                an_operator_is_waited_for_or_lets_anything_go_on
                what_has_come_already_makes_it_ready_at_once
                signals_that_came_early_count_and_the_rest_stays_for_later
                one_wait_of_several_is_enough_and_a_signal_counts_for_the_first_that_waits_for_it
                a_suspension_that_can_never_end_well_is_refused_and_changes_nothing
            }
            timeouts: {
                a_wait_that_is_too_long_ends_the_execution_as_it_asked
                a_wait_that_is_too_long_may_let_it_go_on_and_the_claim_says_so
                a_wait_that_is_escalated_stays_and_is_told_of_once
                the_timeout_of_one_wait_leaves_what_the_others_have_heard
                a_time_that_came_before_the_timeout_comes_first
                a_suspension_timeout_does_not_touch_what_was_resumed_before_it
                a_signal_and_a_timeout_that_come_at_once_do_one_thing
                a_tick_and_a_signal_in_one_transaction_do_one_thing
            }
            signals: {
                signals_are_read_back_with_every_field_in_order_and_page_by_page
                what_is_asked_for_of_signals_is_loaded_and_nothing_else
                signals_are_taken_also_by_the_transaction_that_adds_them
                a_change_whose_guard_fails_records_nothing
                signals_delivered_at_once_are_all_kept_and_the_last_that_is_needed_lets_it_go_on
                the_same_signal_with_the_same_key_is_the_first_one
                the_same_keyed_signal_sent_at_once_is_one
                a_signal_goes_to_one_that_is_live_and_of_the_callers_namespace
                a_signal_beyond_the_limits_is_refused
                an_execution_takes_no_more_signals_than_it_may_have
                what_is_recorded_goes_with_its_execution_and_with_no_other
                what_is_recorded_of_one_that_is_deleted_and_submitted_again_at_once_is_gone
            }
            waitpoints: {
                waitpoints_are_read_back_with_every_field_by_id_and_by_execution
                a_waitpoint_is_made_before_the_suspension_or_with_it
                the_same_name_is_the_same_waitpoint_until_its_signal_was_taken
                one_that_takes_no_delivery_any_more_is_made_anew
                a_waitpoint_whose_time_is_over_is_marked_and_told_of
                waitpoints_expire_in_every_state_that_is_live
                a_waitpoint_is_revoked_once_and_only_where_it_is_open
                an_execution_has_no_more_waitpoints_than_it_may
            }
            tokens: {
                the_keys_of_tokens_are_read_back_with_every_field
                the_secret_that_is_kept_is_the_first_one_for_ever
                a_token_is_accepted_once_and_a_repeat_gets_the_first_answer
                a_repeat_gets_the_first_answer_also_where_the_signal_had_another_name
                a_token_that_several_use_at_once_is_accepted_once
                a_key_of_a_caller_and_a_token_know_the_same_delivery
                a_token_is_refused_anywhere_but_at_its_own_waitpoint
                a_token_does_not_speak_for_another_waitpoint
                a_token_is_refused_from_the_moment_its_time_is_over
                a_token_that_was_revoked_is_refused
                a_token_does_not_wake_what_has_ended
                tokens_of_an_old_key_are_accepted_for_as_long_as_was_said
                tokens_of_a_key_whose_grace_is_over_are_refused
                a_server_with_another_root_secret_signs_with_a_key_of_its_own
            }
            steps: {
                steps_are_read_back_with_every_field_in_order_and_page_by_page
                a_step_is_recorded_once_and_claims_carry_it_in_order
                only_the_current_lease_records_a_step
                steps_survive_whatever_ends_an_attempt
                a_wait_with_a_step_is_open_until_its_end_records_it
                a_wait_that_was_not_the_one_that_ended_stays_open
                every_way_to_go_on_records_the_step_that_was_waited_for
                a_replay_waits_anew_for_what_was_still_open
                an_execution_records_no_more_steps_than_it_may_have
            }
            children: {
                a_parent_goes_on_when_its_last_child_has_ended_and_sees_them_all
                children_that_ended_before_the_suspension_make_it_ready_at_once
                the_end_of_a_child_is_not_missed_in_whatever_order_it_becomes_known
                a_dispatch_that_was_lost_is_made_up_for_by_the_next
                however_a_child_ends_it_has_ended
                a_child_that_is_tried_again_has_not_ended
                detached_children_are_not_waited_for
                children_are_one_part_of_what_is_waited_for
                the_step_of_a_join_is_recorded_by_the_dispatch
                a_parent_that_waits_in_vain_for_its_children_takes_them_along
                a_suspended_child_is_cancelled_with_its_parent_and_one_with_its_flow
                children_that_end_at_once_while_their_parent_suspends_are_not_missed
                a_parent_that_is_no_longer_suspended_is_left_alone
            }
            lanes: {
                a_paused_lane_gives_nothing_out_and_changes_no_row
                what_runs_in_a_lane_that_is_paused_runs_on
                a_draining_lane_gives_out_what_waits_in_it
                a_lane_never_has_more_active_than_its_limit
                claims_made_at_once_do_not_pass_the_limit_of_a_lane_together
                a_lane_starts_no_more_in_any_window_than_its_rate
                a_rate_of_a_lane_is_used_to_the_full_when_time_moves_on
                a_limit_of_a_lane_that_is_changed_counts_at_once
                lanes_that_limit_nothing_count_nothing
                lanes_with_weights_share_a_claim_by_them
                the_kinds_of_a_lane_share_its_limit_and_namespaces_do_not
                a_slot_that_is_given_back_beside_a_claim_is_taken_once
            }
            quotas: {
                what_a_key_refuses_is_held_and_hides_nothing_behind_it
                a_key_never_has_more_active_than_its_limit
                what_is_held_goes_on_by_priority_and_then_by_age
                a_quota_limits_whatever_refers_to_it
                a_quota_that_nobody_has_configured_refuses_nothing_and_counts
                a_quota_starts_no_more_in_any_window_than_its_rate
                what_a_rate_refuses_is_looked_at_when_the_window_has_room
                a_rate_or_a_limit_of_nothing_is_opened_only_by_people
                one_that_the_second_gate_refuses_takes_nothing_of_the_first
                a_gate_whose_turn_was_taken_in_vain_lets_the_next_go_on
                a_limit_that_is_raised_lowered_or_removed_counts_at_once
                what_is_held_goes_on_in_bounded_chunks
                every_way_a_lease_ends_gives_back_what_it_has_taken
                every_way_time_ends_a_lease_gives_back_what_it_has_taken
                the_cancel_of_a_flow_gives_back_what_its_members_have_taken
                what_is_held_is_cancelled_and_expires_like_what_waits
                what_is_held_may_be_rescheduled_and_is_asked_again
                a_replay_draws_anew
                an_end_and_a_claim_of_what_it_lets_go_on_share_one_transaction
                keys_of_different_namespaces_are_different
                each_one_brings_the_limit_of_its_key_along
                slots_that_are_given_back_unseen_are_found
                a_quota_that_limits_nothing_holds_nothing
            }
            budgets: {
                a_claim_is_admitted_while_what_is_used_and_reserved_leaves_room
                what_is_reserved_counts_as_if_it_were_spent
                claims_made_at_once_do_not_reserve_more_than_there_is
                amounts_are_exact_and_dimensions_are_apart
                what_was_spent_is_counted_once_for_its_key
                usage_is_accepted_from_any_attempt_that_once_held_a_lease
                a_budget_that_nobody_has_configured_is_unknown_and_refuses_nothing
                a_limit_that_is_reached_is_told_once
                a_budget_of_flows_counts_each_flow_on_its_own
                the_members_of_a_flow_share_its_part_of_a_budget
                a_budget_of_lanes_counts_each_lane_on_its_own
                a_period_that_is_over_sets_the_usage_back_and_lets_go_on
                a_reset_by_hand_begins_a_period_and_lets_go_on
                a_limit_that_is_raised_or_removed_lets_go_on
                a_removed_budget_that_was_never_used_leaves_nothing
                a_budget_that_is_used_up_may_let_what_runs_run_on
                a_budget_that_is_used_up_may_fail_what_runs
                a_budget_that_is_used_up_may_suspend_what_runs_until_there_is_room
                one_that_a_budget_has_suspended_goes_on_when_an_operator_says_so
                what_is_to_be_stopped_is_not_forgotten_when_something_ends
                a_breach_that_is_over_stops_nothing
                what_a_deleted_execution_has_spent_stays_spent
                what_a_budget_counts_for_a_flow_goes_with_the_flow
                several_budgets_are_all_asked_and_the_first_that_refuses_holds
            }
            fairness: {
                one_of_each_key_may_be_claimed_and_the_others_are_held_by_their_line
                keys_take_turns_however_many_wait_with_one_of_them
                those_without_a_key_stand_in_no_line
                priority_counts_inside_of_a_key_and_keys_take_turns_whatever_it_is
                the_first_of_a_line_keeps_its_turn_and_its_priority_when_that_is_changed
                a_line_moves_up_however_its_first_one_leaves
                one_that_comes_as_the_first_leaves_goes_to_the_end_of_the_line
                one_that_leaves_its_line_from_behind_leaves_the_first_alone
                a_claim_of_many_never_leaves_a_line_without_a_first_one
                keys_in_different_classes_do_not_share_a_line
                one_that_became_ready_in_any_way_takes_its_turn
                a_replay_takes_its_turn
                one_that_a_gate_refuses_leaves_its_line_to_the_next
                claims_and_submissions_made_at_once_leave_nobody_behind_in_a_line
            }
            gate_changes: {
                one_that_asks_for_more_than_is_left_keeps_nobody_behind_it_held
                one_that_allows_fewer_keeps_nobody_behind_it_held_who_allows_more
                what_a_part_of_a_budget_holds_goes_on_when_parts_are_not_counted_any_more
                what_many_wait_for_in_a_budget_that_is_removed_goes_on_to_the_last
                a_period_that_a_budget_is_given_later_counts_for_its_parts_too
                limits_that_are_lowered_below_what_is_used_stop_what_runs
                one_that_spends_on_under_a_budget_that_is_used_up_is_stopped
                one_that_was_asked_to_cancel_is_cancelled_when_its_budget_is_used_up
                what_was_spent_of_different_budgets_is_told_apart_whatever_their_names
                one_that_a_budget_has_suspended_and_asks_for_less_than_the_held_goes_on_as_soon_as_there_is_room
                a_rate_is_used_to_the_full_by_what_is_held_although_nothing_ends
            }
            gate_rows: {
                a_gate_is_read_back_equal_in_every_field
                a_gate_that_is_changed_is_read_back_equal
                gates_that_were_asked_for_are_told_apart_from_those_that_are_there
                configured_gates_are_listed_by_name_and_page_by_page
                the_parts_of_a_gate_are_listed_by_number
                gates_that_are_due_are_found_earliest_first_and_page_by_page
                a_gate_that_has_moved_saves_nothing_and_is_begun_again
                a_gate_that_several_make_at_once_is_made_once
                slots_are_given_back_to_a_gate_that_was_not_read_and_never_more_than_were_taken
                what_was_spent_adds_up_exactly_and_stays_when_who_spent_it_goes
                what_waits_for_a_gate_is_read_back_equal
                what_a_gate_holds_is_found_in_the_order_of_claims
                a_held_execution_that_somebody_else_has_is_not_waited_for
                a_flow_counts_what_is_held_and_is_not_over
                the_key_of_what_was_spent_is_kept_until_it_expires
                what_is_held_survives_beside_what_the_rules_change
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
                $crate::run_case($make, async |harness| $crate::cases::$case(harness).await);
            }
        )*)*
    };
}
