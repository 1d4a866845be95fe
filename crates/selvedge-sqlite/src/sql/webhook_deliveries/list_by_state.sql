-- Returns a page of the deliveries of a webhook in a state before a number, newest first.
-- Index: webhook_deliveries_state.
-- Parameters: ?1 webhook, ?2 number, ?3 limit, ?4 true for bodies, ?5 state
select {delivery}, case when ?4 then body else x'' end
from webhook_deliveries
where webhook = ?1
  and state = ?5
  and number < ?2
order by number desc
limit ?3
