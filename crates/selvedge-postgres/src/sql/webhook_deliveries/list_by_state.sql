-- Returns a page of the deliveries of a webhook in a state before a number, newest first; bodies if the fourth parameter is
-- true.
-- Locks: none. Index: webhook_deliveries_state.
select {delivery}, case when $4 then body else '' end
from webhook_deliveries
where webhook = $1
  and state = $5
  and number < $2
order by number desc
limit $3
