-- Deletes the usage of the budget parts that counted for one flow.
-- Index: gates_of_flow, ledger_entries.
-- Parameters: ?1 the flow, as text
delete from ledger
where gate in (select id from gates indexed by gates_of_flow where kind = {gate_budget} and part = ?1)
