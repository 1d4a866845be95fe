-- Deletes the parts of budgets that counted for flows which are deleted, and what was spent of them.
-- Locks: those parts, which nobody else has any more. Index: gates_of_flow, once per flow; ledger_entries.
with gone as (
  delete from gates
  where kind = 4
    and part is not null
    and part = any($1)
  returning id
)
delete from ledger
using gone
where ledger.gate = gone.id
