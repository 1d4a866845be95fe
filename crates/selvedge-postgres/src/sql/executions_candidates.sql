-- Locks: the first ready executions of one class that nobody else has. Index: executions_claim.
select {columns}, input
from executions
where class = $1
  and state = 0
  and id <> all($3)
order by priority desc, ready_order, id
limit $2
for no key update skip locked
