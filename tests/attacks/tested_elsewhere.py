"""Attacks of the list that need more than a runner: which tests hold them, and which nothing can stop.

The values of ``TESTS`` are files and functions, checked to exist; those of ``RESIDUAL`` are answered by
``docs/explanation/attacks.md``.
"""

from __future__ import annotations

TESTS = {
    "A59": [
        "acceptance/test_core_features.py::test_secrets_reach_only_functions_that_declare_them_and_are_redacted"
    ],
    "A88": [
        "integration/workers/environments/test_environments_policy_and_hostile_wheels.py::test_what_unpacks_to_too_much_is_removed",
        "integration/workers/environments/test_environments_policy_and_hostile_wheels.py"
        "::test_what_fills_the_disk_is_stopped_on_its_way",
    ],
    "A90": [
        "integration/workers/environments/test_environments_policy_and_hostile_wheels.py::test_no_other_index_is_asked",
        "integration/workers/environments/test_environments_policy_and_hostile_wheels.py::test_nothing_but_names_reaches_uv",
    ],
    "A91": [
        "integration/engine/executions/test_start.py::test_a_chain_of_calls_is_stopped_exactly_at_the_depth",
        "acceptance/test_core_features.py::test_endless_calls_end_at_the_depth_limit",
    ],
    "A92": [
        "integration/triggers/routing/test_trigger_cycles_and_storms.py"
        "::test_a_loop_without_a_revisit_limit_ends_at_the_depth",
        "integration/triggers/routing/test_guards.py::test_a_cycle_of_triggers_is_stopped_at_the_second_visit",
    ],
    "A93": [
        "integration/workers/sandbox/supervision/test_request_handler.py"
        "::test_a_secret_that_is_not_declared_is_refused_before_the_host_is_asked",
        "integration/engine/functions/test_privilege_escalation.py"
        "::test_code_opens_the_secrets_that_it_was_granted_and_no_other",
    ],
    "A94": [
        "integration/engine/access/test_secrets_and_function_state.py::test_a_wrong_state_key_is_refused",
        "integration/engine/access/test_secrets_and_function_state.py"
        "::test_state_is_a_value_by_function_and_key_with_a_version",
    ],
    "A95": [
        "integration/workers/sandbox/network/test_connection_broker_refused.py"
        "::test_a_redirect_to_an_ungranted_host_is_refused",
        "integration/workers/sandbox/network/test_connection_broker_refused.py"
        "::test_an_answer_that_changes_after_the_check_has_no_effect",
        "integration/workers/sandbox/network/test_connection_broker_refused.py"
        "::test_a_granted_name_that_leads_to_an_address_that_is_not_public_is_refused",
    ],
}

RESIDUAL = {"A77", "A99", "A100"}
