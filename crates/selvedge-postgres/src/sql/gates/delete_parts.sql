-- Deletes the parts of budgets that counted for deleted flows, and their ledger entries.
-- Locks: those parts, which no other transaction uses any more. Index: gates_of_flow, once per flow; ledger_entries.
with gone as (
  delete from gates
  where kind = {gate_budget}
    and part is not null
    and part = any($1)
  returning id
)
delete from ledger
using gone
where ledger.gate = gone.id
